"""Findings about nodes that could not be examined: what refused access, and what to do."""

from nightbench.core.model import Cluster, Reason, ReasonCode
from nightbench.nodes.node_preflight import Finding, NodePreflight, fail

_LOGIN = (
    (
        ("pam_slurm", "no active jobs", "active jobs on this node"),
        "Slurm",
        "the site admits a login without an allocation, or an allocation exists",
        "the site admits only users with an allocation: keep one on the nodes for the night "
        "(`salloc --no-shell`), or have the site exempt the user from pam_slurm_adopt",
    ),
    (
        ("pam_nologin", "/run/nologin", "system is going down", "booting up"),
        "maintenance",
        "logins are open",
        "the node is booting, or closed to logins (/run/nologin): wait, or ask its administrator",
    ),
    (
        ("account has expired", "password has expired", "account is locked"),
        "account",
        "a valid account",
        "renew the account on the node",
    ),
)
"""Texts of PAM that sshd passes on; the site defines them, so they are recognised by words."""

_OF_ROOT = (
    *("read-only", "noexec", "permission", "rights", "space", "quota", "cannot be written"),
    *("could not make", "could not write", "could not upload", "not a directory"),
)
"""Words of problems with `environments.root`, in the error of a file operation there."""

_SLOW = (
    "agent's Python",
    "Python answers within the time limit",
    "Python starts slowly on the node (network file system, wrapper or `module load`): set another "
    "interpreter as environments.python in the cluster's YAML",
)

_KINDS = {
    ReasonCode.HOST_KEY_REJECTED: (
        "host key",
        "the key in known_hosts",
        "if the host was reinstalled, compare the fingerprint with its console and replace the "
        "line in known_hosts; otherwise the connection may be intercepted: do not log in",
    ),
    ReasonCode.LOGIN_REFUSED: (
        "login",
        "user and key of the Connection are accepted",
        "check ~/.ssh/authorized_keys on the node and its rights (700 on ~/.ssh, 600 on the "
        "file). A site with a scheduler may require an allocation first",
    ),
    ReasonCode.NOT_SSH: ("SSH", "an SSH server", "check `port` in the Connection or the YAML"),
    ReasonCode.NODE_UNREACHABLE: (
        "reach",
        "the node answers",
        "check that the node and sshd run, and that firewall and jump host allow SSH",
    ),
    ReasonCode.DISK_FULL: (
        "disk",
        "free space for the benchmarks' code",
        "make room, raise the quota, or move environments.root to another disk",
    ),
    ReasonCode.PYTHON_UNUSABLE: (
        "agent's Python",
        "Python 3.7 or newer",
        "install python3, or set environments.python in the cluster's YAML",
    ),
}


def refusal(seen: NodePreflight, cluster: Cluster) -> Finding:
    """Return the finding about a node without a preflight document."""
    problem = seen.problem or Reason(ReasonCode.CONTROLLER_ERROR, observed="no reason was given")
    said = problem.observed
    lowered = said.lower()
    for words, what, expected, advice in _LOGIN:
        if any(word in lowered for word in words):
            return fail(what, said, expected, advice)
    if any(f" s to: {verb}" in said for verb in ("run ", "begin ", "converse", "follow")):
        what, expected, advice = _SLOW
        return fail(what, said, expected, advice)
    if problem.code in _KINDS:
        what, expected, advice = _KINDS[problem.code]
        return fail(what, said, expected, advice)
    of_files = problem.code is ReasonCode.REMOTE_FAILURE and said.startswith("could not ")
    if of_files and any(word in lowered for word in _OF_ROOT):
        return of_root(said, cluster.environments.root)
    return fail("access", said, "the node can be checked", "fix what the message names")


def of_root(said: str, root: str, key: str = "root") -> Finding:
    """The finding for a folder that cannot be used, by what was said of it."""
    lowered = said.lower()
    if "read-only" in lowered:
        advice = "remount the disk writable (after an error, see `dmesg`), or move the root"
    elif "noexec" in lowered:
        advice = "mount the file system without noexec, or move the root"
    elif "permission" in lowered:
        advice = "make the folder for the node's user (`install -d -o USER ROOT`), or move the root"
    elif "space" in lowered or "quota" in lowered:
        advice = "make room on the disk or raise the quota, or move the root"
    else:
        advice = "check the folder on the node"
    return fail(
        key,
        said,
        f"{root} can be written" + (" and programs in it can run" if key == "root" else ""),
        f"{advice} (environments.{key} in the cluster's YAML)",
    )
