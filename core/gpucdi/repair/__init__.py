"""What to write so that every expected name resolves, and the proof that nothing gets worse.

Owns: the content of our own spec files, where they go, and the check of the registry that would
result, before anything is written. Must not know: how ``nvidia-ctk`` is run or files are written;
both are the agent's.
"""

from gpucdi.repair.actions import Plan, RemoveFile, WriteFile
from gpucdi.repair.content import own_content, own_fingerprint, sha256_text
from gpucdi.repair.need import Generation, OwnFile, fingerprint, own_files, wanted
from gpucdi.repair.plan import plan, removal, verify

__all__ = [
    "Generation",
    "OwnFile",
    "Plan",
    "RemoveFile",
    "WriteFile",
    "fingerprint",
    "own_content",
    "own_files",
    "own_fingerprint",
    "plan",
    "removal",
    "sha256_text",
    "verify",
    "wanted",
]
