"""The Kubernetes objects in what was given, and in words what they are, when they are no Pod.

Owns: YAML, JSON, Lists, arrays and several documents; the words about objects that hold no failure.
Must not know: what a Pod's status or an Event says.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import yaml

from gpucdi.api import fields
from gpucdi_cli.problems import CliError

Object = Mapping[str, object]

# libyaml where it is built in: the same values, ten times sooner, and bounded in depth.
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
# After comments and blank lines, the ways in which objects begin.
_LOOKS_LIKE_AN_OBJECT = re.compile(
    r"\A(?:[ \t]*(?:#[^\n]*)?\r?\n)*[ \t]*"
    r"(?:[{\[]|---|(?:apiVersion|kind|items|metadata|spec|status|involvedObject|handler):)"
)
_DESCRIBED = re.compile(r"^Name:[ \t]+(\S+)", re.MULTILINE)
_DESCRIBES_NO_POD = re.compile(r"^(?:Pod Template|Roles|CreationTimestamp):", re.MULTILINE)
_HAS_A_KIND = re.compile(r'^\s*"?(?:apiVersion|kind)"?:', re.MULTILINE)
_BLANKS = re.compile(r"\s*")
_TABLE_OF_PODS = re.compile(r"^(?:NAMESPACE\s+)?NAME\s+READY\s+STATUS\s+RESTARTS", re.MULTILINE)
GET_POD = "kubectl get pod NAME -o yaml"


@dataclass(frozen=True, slots=True)
class Pasted:
    """A text and the objects in it, the items of Lists and arrays one by one; none for a plain text.

    ``problem`` says where a text that was meant to be an object is neither YAML nor JSON. ``text``
    is what was given, or the same objects as one List where that is what others can read.
    """

    text: str
    objects: tuple[Object, ...] = ()
    problem: str = ""
    is_empty_list: bool = False

    def of_kind(self, kind: str) -> tuple[Object, ...]:
        """Return the objects of one kind, in order."""
        return tuple(item for item in self.objects if fields.text(item, "kind") == kind)

    @property
    def handlers(self) -> dict[str, str]:
        """Return the handler of each RuntimeClass."""
        return {
            fields.text(fields.mapping(item, "metadata"), "name"): fields.text(item, "handler")
            for item in self.of_kind("RuntimeClass")
        }


def read_pasted(content: str) -> Pasted:
    """Tell objects from plain text.

    Raises :class:`CliError` for the one kind of YAML that nobody can read on in.
    """
    if _LOOKS_LIKE_AN_OBJECT.match(content) is None:
        return Pasted(content)
    documents = _json_documents(content)
    many = len(documents) > 1 or any(isinstance(item, list) for item in documents)
    try:
        documents = documents or list(yaml.load_all(content, Loader=_LOADER))
    except (yaml.YAMLError, ValueError, RecursionError, AttributeError, TypeError) as error:
        return Pasted(content, problem=_in_one_line(error))
    except LookupError as error:
        # PyYAML stumbles over a tag that its value does not fit: `!!int ''`.
        raise CliError("this YAML has a value that does not fit its tag", "drop the !! tags") from (
            error
        )
    objects = tuple(item for document in documents for item in _flat(document))
    empty = not objects and all(map(_is_empty, documents))
    return Pasted(listed(objects) if many and objects else content, objects, is_empty_list=empty)


def _is_empty(document: object) -> bool:
    return document in ([], None) or (isinstance(document, Mapping) and document.get("items") == [])


def listed(objects: Sequence[Object]) -> str:
    """Return objects as one List in JSON."""
    return json.dumps({"kind": "List", "items": list(objects)}, default=str)


def _json_documents(content: str) -> list[object]:
    """Return JSON documents behind one another, as jq and several ``kubectl get`` print them."""
    decoder, found = json.JSONDecoder(), list[object]()
    position = _after_blanks(content, 0)
    try:
        while position < len(content):
            document, position = decoder.raw_decode(content, position)
            found.append(document)
            position = _after_blanks(content, position)
    except (ValueError, RecursionError):
        return []
    return found


def _after_blanks(content: str, position: int) -> int:
    found = _BLANKS.match(content, position)
    return found.end() if found else position


def _flat(document: object) -> Iterator[Object]:
    if isinstance(document, list):
        for item in document:
            yield from _flat(item)
    elif isinstance(document, Mapping):
        kind = fields.text(document, "kind")
        if isinstance(document.get("items"), list) and kind.endswith("List"):
            # Items of a typed list may leave their kind out.
            for item in fields.objects(document, "items"):
                yield {"kind": kind.removesuffix("List"), **item}
        else:
            yield {str(key): value for key, value in document.items()}


def _in_one_line(error: Exception) -> str:
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        return f"line {error.problem_mark.line + 1}: {error.problem or error.context}"
    return " ".join(str(error).split())


def template_of(item: Object) -> Object | None:
    """Return the Pod that a Deployment, Job or CronJob makes; ``None`` when it makes none."""
    spec = fields.mapping(item, "spec")
    template = fields.mapping(
        fields.mapping(fields.mapping(spec, "jobTemplate"), "spec") or spec, "template"
    )
    if not fields.mapping(template, "spec"):
        return None
    return {"kind": "Pod", **template}


def refuse_without_failure(pasted: Pasted) -> None:
    """Raise :class:`CliError` for what no failure can stand in, saying what it is.

    To be asked only when no failure was found. Any other text passes: it may be any log.
    """
    content = pasted.text
    if pasted.problem and _HAS_A_KIND.search(content):
        raise CliError(
            f"this begins like a Kubernetes object and cannot be read: {pasted.problem}",
            f"give the whole of it: {GET_POD}",
        )
    if pasted.objects:
        _refuse_object(pasted.objects[0])
    elif pasted.is_empty_list:
        raise CliError(
            "this is an empty list: no Pod is in it", f"name the namespace: {GET_POD} -n NAMESPACE"
        )
    described = _DESCRIBED.search(content)
    if described and _DESCRIBES_NO_POD.search(content):
        raise CliError(
            f"this describes {described[1]}, which is no Pod",
            "describe the Pod: kubectl describe pod NAME | gpucdi explain",
        )
    if _TABLE_OF_PODS.search(content):
        raise CliError(
            "this is a table of Pods, which leaves their error texts out",
            f"pipe the objects: {GET_POD} | gpucdi explain",
        )


def refuse_manifests(pasted: Pasted) -> None:
    """Raise :class:`CliError` when every Pod is a manifest: without a status none can have failed.

    To be asked only when neither a failure nor the node says anything.
    """
    pods = pasted.of_kind("Pod")
    if pods and not any(fields.mapping(pod, "status") for pod in pods):
        raise CliError(
            f"this is {named(pods[0])} without a status, as before its start",
            f"pipe what the cluster has: {GET_POD}; or ask before it starts: gpucdi predict",
        )


def _refuse_object(item: Object) -> None:
    kind = fields.text(item, "kind")
    if kind == "Status":
        said = fields.text(item, "message") or "no message"
        raise CliError(f"the API server gave no Pod, it said: {said}", f"ask for one: {GET_POD}")
    if kind and kind not in {"Pod", "Event"} and "apiVersion" in item:
        raise CliError(f"this is {named(item)}, not a Pod", _pipe_its_pod(item))


def named(item: Object) -> str:
    """Return an object in words: ``a Deployment (trainer)``."""
    kind, name = fields.text(item, "kind"), fields.text(fields.mapping(item, "metadata"), "name")
    article = "an" if kind[0] in "AEIO" else "a"
    return f"{article} {kind} ({name})" if name else f"{article} {kind}"


def _pipe_its_pod(item: Object) -> str:
    metadata = fields.mapping(item, "metadata")
    labels = fields.mapping(fields.mapping(fields.mapping(item, "spec"), "selector"), "matchLabels")
    chosen = ",".join(f"{key}={value}" for key, value in labels.items())
    if fields.text(item, "kind") == "Job":
        chosen = f"job-name={fields.text(metadata, 'name')}"
    if template_of(item) is None or not chosen:
        return f"pipe the Pod that fails: {GET_POD} | gpucdi explain"
    namespace = fields.text(metadata, "namespace")
    where = f"-n {namespace} " if namespace else ""
    return f"pipe its Pods: kubectl get pods {where}-l {chosen} -o yaml | gpucdi explain"
