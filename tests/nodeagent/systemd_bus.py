"""A systemd that nobody runs, on a real message bus: `dbus-daemon` with one service behind it.

Answers what the agent asks (LoadUnit, Properties.GetAll) with the properties that a test sets, in
systemd's own types.
"""

from __future__ import annotations

import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from jeepney import HeaderFields, Message, MessageType, new_error, new_method_return
from jeepney.bus_messages import message_bus
from jeepney.io.blocking import DBusConnection, Proxy, open_dbus_connection

DBUS_DAEMON = shutil.which("dbus-daemon")
SYSTEMD = "org.freedesktop.systemd1"
CONFIG = """<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig>
  <listen>unix:path={socket}</listen>
  <auth>EXTERNAL</auth>
  <policy context="default">
    <allow send_destination="*" eavesdrop="true"/><allow eavesdrop="true"/><allow own="*"/>
  </policy>
</busconfig>
"""
# The types of systemd's own properties.
TYPES = {
    "LoadState": "s",
    "ActiveState": "s",
    "UnitFileState": "s",
    "Result": "s",
    "ExecMainStatus": "i",
    "ExecMainExitTimestamp": "t",
    "ConditionResult": "b",
    "ConditionTimestamp": "t",
    "Environment": "as",
    "EnvironmentFiles": "a(sb)",
}
OWN = frozenset({"Result", "Environment", "EnvironmentFiles", "ExecMainStatus"})


@dataclass
class FakeSystemd:
    """``units`` maps unit names to properties; a unit without is ``not-found``."""

    socket: Path
    units: dict[str, dict[str, object]] = field(default_factory=dict)
    refuses: bool = False
    asked: list[str] = field(default_factory=list)

    def answer(self, message: Message) -> Message | None:
        member = message.header.fields.get(HeaderFields.member, "")
        self.asked.append(str(member))
        if self.refuses:
            return new_error(message, "org.freedesktop.DBus.Error.AccessDenied", "s", ("no",))
        if member == "LoadUnit":
            name = message.body[0].replace("-", "_2d").replace(".", "_2e")
            return new_method_return(message, "o", (f"/org/freedesktop/systemd1/unit/{name}",))
        if member == "GetAll":
            path = str(message.header.fields[HeaderFields.path])
            unit = path.rpartition("/")[2].replace("_2d", "-").replace("_2e", ".")
            return new_method_return(message, "a{sv}", (self._properties(unit, message.body[0]),))
        return None

    def _properties(self, unit: str, interface: str) -> dict[str, tuple[str, object]]:
        found = self.units.get(unit, {"LoadState": "not-found", "ActiveState": "inactive"})
        own = not interface.endswith(".Unit")
        return {
            name: (TYPES[name], value)
            for name, value in found.items()
            if (name in OWN or name.startswith("ExecMain")) == own
        }


@contextmanager
def systemd_on_a_bus(root: Path) -> Iterator[FakeSystemd]:
    """Run a bus at the host's usual place below ``root``, with the fake on it."""
    assert DBUS_DAEMON is not None
    socket = root / "run/dbus/system_bus_socket"
    socket.parent.mkdir(parents=True, exist_ok=True)
    config = root / "bus.conf"
    config.write_text(CONFIG.format(socket=socket))
    command = [DBUS_DAEMON, f"--config-file={config}", "--nofork", "--print-address=1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as daemon:
        try:
            assert daemon.stdout is not None
            assert daemon.stdout.readline(), "the bus did not start"
            fake = FakeSystemd(socket)
            connection = open_dbus_connection(f"unix:path={socket}", auth_timeout=30)
            Proxy(message_bus, connection).RequestName(SYSTEMD)
            thread = threading.Thread(target=_serve, args=(connection, fake))
            thread.start()
            yield fake
        finally:
            # The end of the bus ends the thread's reading.
            daemon.terminate()
            daemon.wait(20)
    thread.join(20)
    connection.close()


def _serve(connection: DBusConnection, fake: FakeSystemd) -> None:
    while True:
        try:
            message = connection.receive()
        except OSError:
            return
        if message.header.message_type is MessageType.method_call:
            reply = fake.answer(message)
            if reply is not None:
                connection.send(reply)
