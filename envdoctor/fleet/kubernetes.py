"""A Job with one pod a node, as a manifest: it is printed, and created by kubectl alone.

It is not for `kubectl apply`, which repeats it in an annotation: those have at most 256 KiB, and the tool has more.

Sources: Kubernetes API reference, batch/v1 Job (completionMode Indexed), core/v1 Pod (podAntiAffinity,
topologyKey kubernetes.io/hostname), core/v1 ConfigMap (data, at most 1 MiB),
metadata.annotations (at most 256 KiB in all).
"""

from typing import Any

from envdoctor.fleet.carried import Errand

NAME = "envdoctor-fleet"
_DEADLINE_SPARE = 600


def manifest(errand: Errand, program: str, nodes: int, image: str, timeout: float) -> dict[str, Any]:
    """Return a List of a ConfigMap with the tool and a Job that runs it once on each of so many nodes.

    The image is the training's own, whose environment is examined; nothing is installed into it.
    """
    labels = {"app": NAME}
    container = {
        "name": "check",
        "image": image,
        "command": ["sh", "-c", f"exec </envdoctor/program; {errand.shell()}"],
        "env": [{"name": "ENVDOCTOR_NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}],
        "volumeMounts": [{"name": "tool", "mountPath": "/envdoctor", "readOnly": True}],
        "securityContext": {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True},
    }
    spread = {"labelSelector": {"matchLabels": labels}, "topologyKey": "kubernetes.io/hostname"}
    pod = {
        "restartPolicy": "Never",
        "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [spread]}},
        "containers": [container],
        "volumes": [{"name": "tool", "configMap": {"name": NAME}}],
    }
    job = {
        "completions": nodes,
        "parallelism": nodes,
        "completionMode": "Indexed",
        "backoffLimit": 0,
        "activeDeadlineSeconds": int(timeout) + _DEADLINE_SPARE,
        "ttlSecondsAfterFinished": 3600,
        "template": {"metadata": {"labels": labels}, "spec": pod},
    }
    return {
        "apiVersion": "v1",
        "kind": "List",
        "items": [
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": NAME, "labels": labels},
                "data": {"program": program},
            },
            {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": NAME, "labels": labels}, "spec": job},
        ],
    }
