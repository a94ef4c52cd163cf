"""Asks systemd over D-Bus how the two units of ``nvidia-cdi-refresh`` fare. Reads only.

Owns: the seam :class:`Units` and its adapter to the host's system bus. Must not know: what the
answers mean (``gpucdi.node.refresh``). A bus that does not answer costs two seconds, no more; one
that is not there is an unknown, not an error: many nodes mount no socket.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Protocol

from jeepney import (
    DBusAddress,
    HeaderFields,
    Message,
    MessageType,
    Parser,
    Properties,
    new_method_call,
)
from jeepney.auth import AuthenticationError
from jeepney.bus_messages import message_bus
from jeepney.io.blocking import prep_socket

from gpucdi.node.refresh import PATH, SERVICE, RefreshReading, UnitReading

SOCKETS = ("run/dbus/system_bus_socket", "var/run/dbus/system_bus_socket")
ANSWER_SECONDS = 2.0
# A burst of passes asks once, and a bus that costs its two seconds is not asked at every pass.
GOOD_FOR_SECONDS = 15.0
SILENT_FOR_SECONDS = 300.0
_SYSTEMD = "org.freedesktop.systemd1"
_MANAGER = DBusAddress("/org/freedesktop/systemd1", _SYSTEMD, f"{_SYSTEMD}.Manager")


class Units(Protocol):
    """Whoever can tell of the refresh units."""

    def look(self) -> RefreshReading:
        """Return both units; raises nothing."""


class BusError(Exception):
    """The bus or systemd answered with an error; the text is theirs."""


@dataclass(frozen=True, slots=True)
class SystemdUnits:
    """systemd of the host whose files are below ``host_root``."""

    host_root: Path
    answer_seconds: float = ANSWER_SECONDS

    def look(self) -> RefreshReading:
        """Ask for the properties of both units."""
        place = next((at for at in (self.host_root / end for end in SOCKETS) if at.exists()), None)
        if place is None:
            return RefreshReading(problem="no D-Bus socket of the host")
        try:
            return self._ask(place)
        except TimeoutError:
            return RefreshReading(problem=f"no answer on {place} in {self.answer_seconds:g} s")
        except (OSError, AuthenticationError, BusError, ValueError) as error:
            return RefreshReading(problem=f"{place}: {error}")

    def _ask(self, place: Path) -> RefreshReading:
        deadline = time.monotonic() + self.answer_seconds
        with prep_socket(str(place), timeout=self.answer_seconds) as connected:
            bus = _Bus(connected, deadline)
            bus.call(message_bus.Hello())
            return RefreshReading(
                service=_unit(bus, SERVICE, "Service"), path=_unit(bus, PATH, "Path")
            )


@dataclass(slots=True)
class RecentUnits:
    """Answers from the last look while that is recent."""

    units: Units
    monotonic: Callable[[], float]
    _reading: RefreshReading = field(default_factory=RefreshReading)
    _until: float = float("-inf")

    def look(self) -> RefreshReading:
        """Return both units as they were a few seconds ago."""
        if self.monotonic() >= self._until:
            self._reading = self.units.look()
            silent = bool(self._reading.problem)
            good_for_s = SILENT_FOR_SECONDS if silent else GOOD_FOR_SECONDS
            self._until = self.monotonic() + good_for_s
        return self._reading


@dataclass(slots=True)
class _Bus:
    """An authenticated connection on which everything together ends at ``deadline``.

    The library's own connections wait for the first answer without a limit.
    """

    connected: socket.socket
    deadline: float
    _parser: Parser = field(default_factory=Parser)
    _serials: count[int] = field(default_factory=lambda: count(1))

    def call(self, message: Message) -> tuple[object, ...]:
        """Send a method call and return the body of its reply."""
        serial = next(self._serials)
        self._limit()
        self.connected.sendall(message.serialise(serial=serial))
        reply = self._next()
        while reply.header.fields.get(HeaderFields.reply_serial) != serial:
            reply = self._next()
        if reply.header.message_type is MessageType.error:
            name = reply.header.fields.get(HeaderFields.error_name, "an error without a name")
            raise BusError(f"{name}: {' '.join(map(str, reply.body))}")
        return tuple(reply.body)

    def _next(self) -> Message:
        while True:
            message: Message | None = self._parser.get_next_message()
            if message is not None:
                return message
            self._limit()
            data = self.connected.recv(65536)
            if not data:
                raise ConnectionResetError("the bus has closed the connection")
            self._parser.add_data(data)

    def _limit(self) -> None:
        left_s = self.deadline - time.monotonic()
        if left_s <= 0:
            raise TimeoutError
        self.connected.settimeout(left_s)


def _unit(bus: _Bus, name: str, kind: str) -> UnitReading:
    """Load a unit, as ``systemctl show`` does, and read what it and its kind of unit tell."""
    (at,) = bus.call(new_method_call(_MANAGER, "LoadUnit", "s", (name,)))
    unit = _properties(bus, str(at), "Unit")
    own = _properties(bus, str(at), kind)
    return UnitReading(
        load_state=_text(unit, "LoadState"),
        active_state=_text(unit, "ActiveState"),
        unit_file_state=_text(unit, "UnitFileState"),
        result=_text(own, "Result"),
        exit_status=_number(own, "ExecMainStatus"),
        has_run=_number(own, "ExecMainExitTimestamp") > 0,
        condition_failed=_number(unit, "ConditionTimestamp") > 0
        and unit.get("ConditionResult") is False,
        environment=tuple(str(item) for item in _items(own, "Environment")),
        environment_files=tuple(
            str(item[0]) for item in _items(own, "EnvironmentFiles") if isinstance(item, tuple)
        ),
    )


def _properties(bus: _Bus, at: str, interface: str) -> Mapping[str, object]:
    address = DBusAddress(at, _SYSTEMD, f"{_SYSTEMD}.{interface}")
    (values,) = bus.call(Properties(address).get_all())
    if not isinstance(values, dict):
        return {}
    # Every value is a variant: its signature and itself.
    return {str(name): value[1] for name, value in values.items()}


def _text(values: Mapping[str, object], name: str) -> str:
    value = values.get(name)
    return value if isinstance(value, str) else ""


def _number(values: Mapping[str, object], name: str) -> int:
    value = values.get(name)
    return value if isinstance(value, int) else 0


def _items(values: Mapping[str, object], name: str) -> list[object]:
    value = values.get(name)
    return value if isinstance(value, list) else []
