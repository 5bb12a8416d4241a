"""The manifest for KubeRay: its form, the version that is locked, and a configuration that is valid."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from detector.settings.estimator import EngineSettings

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "examples" / "cluster" / "kuberay.yaml").read_text()
PARTS = list(yaml.safe_load_all(TEXT))


def of(kind: str) -> list[Any]:
    return [part for part in PARTS if part["kind"] == kind]


def test_the_version_is_the_one_that_is_locked() -> None:
    locked = re.search(r"^ray==(\S+)", (ROOT / "packaging" / "locks" / "dev.txt").read_text(), re.MULTILINE)
    assert locked is not None
    assert of("RayCluster")[0]["spec"]["rayVersion"] == locked[1]


def test_the_configuration_in_its_head_is_valid() -> None:
    (line,) = re.findall(r"^#   engine: (.*)$", TEXT, re.MULTILINE)
    settings = EngineSettings.model_validate(yaml.safe_load(line))
    (actors,) = of("RayCluster")[0]["spec"]["workerGroupSpecs"]
    cpus = actors["replicas"] * int(actors["template"]["spec"]["containers"][0]["resources"]["limits"]["cpu"])
    assert settings.workers == cpus
    assert settings.parts >= cpus


def test_all_volumes_are_there_and_all_containers_have_the_token() -> None:
    spec = of("RayCluster")[0]["spec"]
    claims = {claim["metadata"]["name"] for claim in of("PersistentVolumeClaim")}
    for group in (spec["headGroupSpec"], *spec["workerGroupSpecs"]):
        pod = group["template"]["spec"]
        volumes = {volume["name"]: volume for volume in pod["volumes"]}
        for volume in volumes.values():
            assert volume.get("persistentVolumeClaim", {}).get("claimName", "detector-state") in claims
        for container in pod["containers"]:
            assert {mount["name"] for mount in container["volumeMounts"]} <= volumes.keys()
            environment = {entry["name"]: entry for entry in container["env"]}
            assert environment["RAY_AUTH_MODE"]["value"] == "token"
            assert "secretKeyRef" in environment["RAY_AUTH_TOKEN"]["valueFrom"]
        assert "shared" in volumes
    (policy,) = of("NetworkPolicy")
    cluster = of("RayCluster")[0]["metadata"]["name"]
    assert policy["spec"]["podSelector"]["matchLabels"] == {"ray.io/cluster": cluster}
