"""Kueue beside a drill's Kubernetes: its kinds, its webhooks, and its controller as a process.

It admits pods of one namespace alone, so that other drills run without it.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest
import yaml
from tests.drills.host import sh, tool
from tests.drills.kubernetes.cluster import Kubernetes
from tests.integration.openssh import end, free_port

KUEUE = os.environ.get("NIGHTBENCH_DRILL_KUEUE", "")
"""Folder with the program `kueue` (`go build ./cmd/kueue`) and `config` of the same source."""
HERE = "127.0.0.1"
QUEUE = "bench"


class Kueue:
    """Kueue with one queue of one namespace.

    Args:
        own: a Kubernetes without Kueue.
        namespace: it exists.
        cpu: quota of the queue.
    """

    def __init__(self, own: Kubernetes, namespace: str, cpu: str) -> None:
        self._own, self._namespace, self._cpu = own, namespace, cpu
        self.folder = own.folder / "kueue"
        self._source = Path(KUEUE) / "config/components"
        self._port = free_port([HERE])

    def __enter__(self) -> Kueue:
        self.folder.mkdir()
        for name in sorted((self._source / "crd/bases").glob("*.yaml")):
            self._own.kubectl("apply", "--server-side", "-f", str(name))
        sh(
            *(tool("openssl"), "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
            *("-subj", "/CN=kueue", "-addext", f"subjectAltName=IP:{HERE}"),
            *("-keyout", f"{self.folder}/tls.key", "-out", f"{self.folder}/tls.crt"),
        )
        config = {
            "apiVersion": "config.kueue.x-k8s.io/v1beta1",
            "kind": "Configuration",
            "health": {"healthProbeBindAddress": f"{HERE}:{free_port([HERE])}"},
            "metrics": {"bindAddress": "0"},
            "webhook": {"host": HERE, "port": self._port, "certDir": str(self.folder)},
            "leaderElection": {"leaderElect": False},
            "internalCertManagement": {"enable": False},
            "managedJobsNamespaceSelector": self._selector(),
            "integrations": {"frameworks": ["pod"]},
        }
        path = self.folder / "config.json"
        path.write_text(json.dumps(config))
        # It reads the certificate of its metrics, which it does not serve, from a fixed folder.
        certificates = self.folder / "etc/kueue/metrics/certs"
        certificates.parent.mkdir(parents=True)
        certificates.symlink_to(self.folder)
        own_etc = 'mount --bind "$0" /etc && exec "$@"'
        words = ["unshare", "-m", "sh", "-c", own_etc, f"{self.folder}/etc", f"{KUEUE}/kueue"]
        words += [f"--config={path}", "--feature-gates=VisibilityOnDemand=false"]
        with (self._own.folder / "kueue.log").open("ab") as log:
            self._process = subprocess.Popen(
                [*words, f"--kubeconfig={self._own.kubeconfig}"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        try:
            self._apply(*self._webhooks())
            # Its webhooks answer some seconds after its start.
            self._own.until(self._make_queue, "Kueue")
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        for hook in self._webhooks():
            self._own.kubectl(
                "delete", hook["kind"], hook["metadata"]["name"], "--ignore-not-found"
            )
        end(self._process)

    def workloads(self) -> list[str]:
        """Return the names of what is queued or admitted."""
        found = self._own.kubectl("-n", self._namespace, "get", "workloads", "-o", "name")
        return found.split()

    def _make_queue(self) -> None:
        if (status := self._process.poll()) is not None:
            said = (self._own.folder / "kueue.log").read_text()[-2000:]
            pytest.fail(f"Kueue ended with {status}: {said}")
        self._apply(*self._queue())

    def _apply(self, *objects: dict[str, Any]) -> None:
        self._own.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(objects))

    def _selector(self) -> dict[str, Any]:
        key = "kubernetes.io/metadata.name"
        named = {"key": key, "operator": "In", "values": [self._namespace]}
        return {"matchExpressions": [named]}

    def _webhooks(self) -> list[dict[str, Any]]:
        authority = base64.b64encode((self.folder / "tls.crt").read_bytes()).decode()
        found = []
        for document in yaml.safe_load_all((self._source / "webhook/manifests.yaml").read_text()):
            kept = []
            for hook in document["webhooks"]:
                groups = {group for rule in hook["rules"] for group in rule["apiGroups"]}
                if groups <= {"", "kueue.x-k8s.io"}:
                    path = hook["clientConfig"]["service"]["path"]
                    url = f"https://{HERE}:{self._port}{path}"
                    hook["clientConfig"] = {"url": url, "caBundle": authority}
                    if groups == {""}:
                        hook["namespaceSelector"] = self._selector()
                    kept.append(hook)
            found.append({**document, "webhooks": kept})
        return found

    def _queue(self) -> list[dict[str, Any]]:
        version = "kueue.x-k8s.io/v1beta1"
        quotas = [
            {"name": "cpu", "nominalQuota": self._cpu},
            {"name": "memory", "nominalQuota": "100Gi"},
        ]
        resources = {
            "coveredResources": ["cpu", "memory"],
            "flavors": [{"name": "any", "resources": quotas}],
        }
        spec = {"namespaceSelector": {}, "resourceGroups": [resources]}
        of_namespace = {"name": QUEUE, "namespace": self._namespace}
        return [
            {"apiVersion": version, "kind": "ResourceFlavor", "metadata": {"name": "any"}},
            {
                **{"apiVersion": version, "kind": "ClusterQueue"},
                **{"metadata": {"name": QUEUE}, "spec": spec},
            },
            {
                **{"apiVersion": version, "kind": "LocalQueue"},
                **{"metadata": of_namespace, "spec": {"clusterQueue": QUEUE}},
            },
        ]
