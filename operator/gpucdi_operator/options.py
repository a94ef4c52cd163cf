"""What the operator can be told. Owns defaults and their units."""

from __future__ import annotations

from dataclasses import dataclass

from gpucdi.api.names import NAMESPACE


@dataclass(frozen=True, slots=True)
class Timing:
    """Every interval of the operator, in seconds."""

    # Leader election; a dead leader is replaced after lease + retry at most.
    lease_s: float = 10.0
    renew_s: float = 2.0
    # A write needs this much of the lease left, so that a paused leader that wakes does not write.
    fence_margin_s: float = 3.0
    # Agents' Leases are listed, not watched: 5,000 renewals a minute would cost more than a list.
    lease_sweep_s: float = 20.0
    # A status without any Lease: its agent may just have started.
    missing_lease_s: float = 180.0
    # Policies look at the fleet at each change, and this often for the passing of time.
    governor_s: float = 10.0
    # A loop over the fleet that was refused, or failed, is tried again after this.
    retry_s: float = 5.0
    # Everything is listed again, against deletions that a re-list after 410 hides.
    resync_s: float = 600.0
    # A watch that says nothing for so long is opened anew; bookmarks come each minute where anything
    # has changed since it began.
    watch_idle_s: float = 70.0
    # Pods of drifted nodes are listed: kubelet's Events go silent after a few minutes of failing.
    pod_resync_s: float = 300.0
    # Never more than one GET of one Pod in this time.
    pod_get_s: float = 10.0
    # A Pod waits this long to be explained while its node's agent has said nothing yet.
    node_wait_s: float = 15.0
    # An explained Pod is looked at again this often while its names resolve and it does not run.
    pod_recheck_s: float = 15.0
    # Each time after twice as long, up to this, until its node or an Event tells something new.
    pod_recheck_limit_s: float = 300.0
    # A Pod that fails again after it was restored is told so, but not more often than this.
    event_again_s: float = 300.0
    # The Pods of a node that drifts are counted so long afterwards, when the last name has gone.
    risk_settle_s: float = 5.0
    # Between the lists of two such nodes: a roll-out may make thousands drift at once.
    risk_interval_s: float = 0.25
    # No Pod is restarted before its node's names have resolved for so long.
    restart_settle_s: float = 30.0
    # A Pod whose disruption budget is used up is tried again after this.
    restart_later_s: float = 30.0
    # After a 403 an optional right is not used for so long, by anybody.
    right_asked_again_s: float = 60.0
    # Events live an hour on the server; a lasting fault refreshes its Event.
    event_refresh_s: float = 1800.0


@dataclass(frozen=True, slots=True)
class Options:
    """One run of the operator. ``http`` is ``host:port``; no host means all addresses."""

    kubeconfig: str | None = None
    namespace: str = NAMESPACE
    http: str = ":8080"
    identity: str = ""
    requests_per_second: float = 50.0
    burst: float = 100.0
    workers: int = 8
    timing: Timing = Timing()
