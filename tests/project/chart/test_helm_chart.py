"""deploy/helm/responses-gateway, rendered by the real `helm`: its objects fit the schemas and keep their promises."""

import hashlib
import json
import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import httpx
import jsonschema_rs
import pytest
import yaml
from typer.testing import CliRunner

from gateway.cli import commands
from gateway.config.settings import parse_settings
from scripts.chart_tools import KUBERNETES_VERSIONS, find_definitions, find_helm
from tests.serving import command

Json = dict[str, Any]

ROOT = Path(__file__).parents[3]
CHART = ROOT / "deploy/helm/responses-gateway"
VALUES: Json = yaml.safe_load((CHART / "values.yaml").read_text())
HELM = find_helm()
needs_helm = pytest.mark.skipif(HELM is None, reason="no helm on this machine: `make chart-tools` fetches it")
SECRET: Json = {"existingSecret": "gateway-keys"}
EVERYTHING: Json = {
    **SECRET,
    "image": {"digest": f"sha256:{'a' * 64}"},
    "autoscaling": {"enabled": True},
    "networkPolicy": {
        "from": [{"namespaceSelector": {"matchLabels": {"team": "a"}}}],
        "metricsFrom": [{"namespaceSelector": {"matchLabels": {"name": "monitoring"}}}],
    },
    "metrics": {"serviceMonitor": True},
    "httpRoute": {"enabled": True, "parentRefs": [{"name": "public"}], "hostnames": ["gateway.example.com"]},
}
LEAST: Json = {
    "config": "providers: {demo: {type: demo}}\nmodels: {demo: {provider: demo}}\nstore: {url: null}\n",
    "networkPolicy": {"enabled": False},
    "spread": None,
    "migrate": False,
}
CRDS = {"ServiceMonitor", "HTTPRoute"}
"""Kinds that are no part of Kubernetes, so that its schemas do not have them."""


def run_helm(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    assert HELM is not None
    return subprocess.run([HELM, *arguments], capture_output=True, text=True, timeout=60, check=False)


def render(values: Json, folder: Path) -> dict[str, Json]:
    """Returns the objects of the chart with these values, by kind."""
    file = folder / "values.json"
    file.write_text(json.dumps(values))
    done = run_helm("template", "prod", CHART, "--namespace", "models", "--values", file)
    assert done.returncode == 0, done.stderr
    objects = [each for each in yaml.safe_load_all(done.stdout) if each]
    by_kind = {each["kind"]: each for each in objects}
    assert len(by_kind) == len(objects)
    return by_kind


def fail_to_render(values: Json, folder: Path) -> str:
    file = folder / "values.json"
    file.write_text(json.dumps(values))
    done = run_helm("template", "prod", CHART, "--values", file)
    assert done.returncode != 0
    return done.stderr


def pod_of(objects: dict[str, Json]) -> Json:
    pod: Json = objects["Deployment"]["spec"]["template"]["spec"]
    return pod


def gateway_of(objects: dict[str, Json]) -> Json:
    (container,) = pod_of(objects)["containers"]
    assert isinstance(container, dict)
    return container


def test_the_values_are_those_that_the_page_describes() -> None:
    page = (ROOT / "docs/kubernetes.md").read_text()
    described = re.findall(r"^\| `(\w+)[^`]*` \|", page, flags=re.MULTILINE)
    assert list(dict.fromkeys(described)) == list(VALUES)
    schema = json.loads((CHART / "values.schema.json").read_text())
    assert schema["additionalProperties"] is False
    assert list(schema["properties"]) == ["global", *VALUES], "helm itself adds `global`"
    for name, value in VALUES.items():
        if isinstance(value, dict) and name != "resources":
            assert list(schema["properties"][name]["properties"]) == list(value), name
    assert jsonschema_rs.is_valid(schema, VALUES)


def test_the_chart_has_the_version_of_the_package() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert chart["version"] == chart["appVersion"] == version


def test_the_default_configuration_is_valid() -> None:
    environ = {"STORE_URL": "postgresql+asyncpg://gateway:p@postgres/gateway", "GATEWAY_KEY": "k" * 32}
    assert parse_settings(yaml.safe_load(VALUES["config"]), environ=environ).auth is not None


def read_traces_example() -> Json:
    """Returns the values that the page shows for traces."""
    section = (ROOT / "docs/kubernetes.md").read_text().partition("## Traces")[2]
    example: Json = yaml.safe_load(section.partition("```yaml")[2].partition("```")[0])
    return example


def test_the_example_for_traces_is_valid() -> None:
    environ = {"STORE_URL": "postgresql+asyncpg://gateway:p@postgres/gateway", "GATEWAY_KEY": "k" * 32}
    settings = parse_settings(yaml.safe_load(read_traces_example()["config"]), environ=environ)
    assert settings.tracing is not None
    assert settings.tracing.endpoint == "http://otel-collector.observability:4318"
    assert jsonschema_rs.is_valid(json.loads((CHART / "values.schema.json").read_text()), read_traces_example())


@needs_helm
def test_the_example_for_traces_is_rendered(tmp_path: Path) -> None:
    objects = render(read_traces_example(), tmp_path)
    assert "otel-collector.observability" in json.dumps(objects["ConfigMap"])
    assert objects["ServiceMonitor"]["spec"]["endpoints"]


def test_the_variables_of_the_chart_override_the_configuration(tmp_path: Path) -> None:
    text = (CHART / "templates/deployment.yaml").read_text()
    named = set(re.findall(r"\bGATEWAY_\w+", text))
    assert named == {"GATEWAY_PORT", "GATEWAY_LINGER_S", "GATEWAY_DRAIN_S", "GATEWAY_METRICS_LISTEN"}
    help_text = CliRunner().invoke(commands.app, ["serve", "--help"], terminal_width=200).output
    assert all(f"[env var: {name}]" in re.sub(r"\s+", " ", help_text) for name in named)


@needs_helm
def test_the_linter_has_no_complaint() -> None:
    done = run_helm("lint", "--strict", CHART, "--set", "existingSecret=gateway-keys")
    assert done.returncode == 0, done.stdout + done.stderr
    assert not re.search(r"\[(WARNING|ERROR)\]", done.stdout)


@needs_helm
@pytest.mark.parametrize("version", KUBERNETES_VERSIONS)
@pytest.mark.parametrize("values", [SECRET, EVERYTHING, LEAST], ids=["defaults", "everything", "least"])
def test_objects_fit_the_schemas_of_kubernetes(values: Json, version: str, tmp_path: Path) -> None:
    file = find_definitions(version)
    if file is None:
        pytest.skip("no schemas of Kubernetes on this machine: `make chart-tools` fetches them")
    definitions = json.loads(file.read_text())["$defs"]
    for kind, each in render(values, tmp_path).items():
        if kind not in CRDS:
            group, _, own_version = each["apiVersion"].rpartition("/")
            name = next(known for known in definitions if is_definition(known, group, own_version, kind))
            validator = jsonschema_rs.validator_for({"$ref": f"#/$defs/{name}", "$defs": definitions})
            assert [str(error) for error in validator.iter_errors(each)] == []


def is_definition(name: str, group: str, version: str, kind: str) -> bool:
    return name.endswith(f".{group.split('.')[0] or 'core'}.{version}.{kind}")


@needs_helm
def test_a_field_that_kubernetes_does_not_have_would_be_found(tmp_path: Path) -> None:
    file = find_definitions(KUBERNETES_VERSIONS[0])
    if file is None:
        pytest.skip("no schemas of Kubernetes on this machine: `make chart-tools` fetches them")
    deployment = render(SECRET, tmp_path)["Deployment"]
    deployment["spec"]["template"]["spec"]["containers"][0]["readinesProbe"] = {}
    definitions = json.loads(file.read_text())["$defs"]
    schema = {"$ref": "#/$defs/io.k8s.api.apps.v1.Deployment", "$defs": definitions}
    assert not jsonschema_rs.validator_for(schema).is_valid(deployment)


@needs_helm
def test_pods_are_replaced_without_a_gap(tmp_path: Path) -> None:
    objects = render({**SECRET, "lingerSeconds": 20, "drainSeconds": 100}, tmp_path)
    spec, pod, gateway = objects["Deployment"]["spec"], pod_of(objects), gateway_of(objects)
    assert spec["replicas"] == 2
    assert spec["strategy"] == {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}}
    assert spec["minReadySeconds"] == 10
    assert pod["terminationGracePeriodSeconds"] == 20 + 100 + 15
    variables = {each["name"]: each["value"] for each in gateway["env"]}
    assert (variables["GATEWAY_LINGER_S"], variables["GATEWAY_DRAIN_S"]) == ("20", "100")
    assert gateway["startupProbe"]["httpGet"]["path"] == gateway["livenessProbe"]["httpGet"]["path"] == "/healthz"
    readiness = gateway["readinessProbe"]
    assert readiness["httpGet"]["path"] == "/readyz"
    assert readiness["periodSeconds"] * readiness["failureThreshold"] < VALUES["lingerSeconds"]
    liveness = gateway["livenessProbe"]
    assert liveness["periodSeconds"] * liveness["failureThreshold"] >= 30, "a busy event loop is no reason to kill"
    assert "lifecycle" not in gateway, "the server lingers itself"
    assert objects["PodDisruptionBudget"]["spec"]["maxUnavailable"] == 1


@needs_helm
def test_a_change_of_the_configuration_replaces_the_pods(tmp_path: Path) -> None:
    def read_digest(config: str) -> tuple[str, str]:
        objects = render({**SECRET, "config": config}, tmp_path)
        assert objects["ConfigMap"]["data"] == {"config.yaml": config}
        annotations = objects["Deployment"]["spec"]["template"]["metadata"]["annotations"]
        return annotations["checksum/config"], hashlib.sha256(config.encode()).hexdigest()

    one, other = "models: {}  # “quoted” \ttext: ${NAME}\n", "models: {}\n"
    for config in (one, other):
        digest, expected = read_digest(config)
        assert digest == expected


@needs_helm
def test_containers_have_no_rights(tmp_path: Path) -> None:
    pod = pod_of(render(SECRET, tmp_path))
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["automountServiceAccountToken"] is False
    containers = [*pod["initContainers"], *pod["containers"]]
    assert [each["name"] for each in containers] == ["migrate", "gateway"]
    user = re.findall(r"^USER (\d+):(\d+)$", (ROOT / "Dockerfile").read_text(), flags=re.MULTILINE)
    assert user == [(str(pod["securityContext"]["runAsUser"]), str(pod["securityContext"]["runAsGroup"]))]
    for container in containers:
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert container["resources"]["requests"]["memory"] == container["resources"]["limits"]["memory"]
        assert container["envFrom"] == [{"secretRef": {"name": "gateway-keys"}}]
        mounted = {mount["name"] for mount in container["volumeMounts"]}
        assert mounted == {volume["name"] for volume in pod["volumes"]}


@needs_helm
def test_the_commands_of_the_containers_exist(tmp_path: Path) -> None:
    pod = pod_of(render(SECRET, tmp_path))
    for container in (*pod["initContainers"], *pod["containers"]):
        program, name, *options = container["command"]
        assert program == "responses-gateway"
        result = CliRunner().invoke(commands.app, [name, "--help"])
        assert result.exit_code == 0
        assert all(option in result.output for option in options if option.startswith("--"))


@needs_helm
def test_the_database_is_migrated_by_new_pods_unless_that_is_off(tmp_path: Path) -> None:
    (migrate,) = pod_of(render(SECRET, tmp_path))["initContainers"]
    assert migrate["command"][:2] == ["responses-gateway", "migrate"]
    assert "initContainers" not in pod_of(render({**SECRET, "migrate": False}, tmp_path))


@needs_helm
def test_pods_are_spread_over_zones_unless_that_is_left_to_the_scheduler(tmp_path: Path) -> None:
    objects = render(SECRET, tmp_path)
    (constraint,) = pod_of(objects)["topologySpreadConstraints"]
    assert constraint["topologyKey"] == "topology.kubernetes.io/zone"
    labels = objects["Deployment"]["spec"]["template"]["metadata"]["labels"]
    assert constraint["labelSelector"]["matchLabels"].items() <= labels.items()
    assert "topologySpreadConstraints" not in pod_of(render({**SECRET, "spread": None}, tmp_path))


@needs_helm
def test_everything_selects_the_pods(tmp_path: Path) -> None:
    objects = render(EVERYTHING, tmp_path)
    labels = objects["Deployment"]["spec"]["template"]["metadata"]["labels"]
    selectors = [
        objects["Deployment"]["spec"]["selector"]["matchLabels"],
        objects["Service"]["spec"]["selector"],
        objects["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"],
        objects["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"],
    ]
    assert all(selector.items() <= labels.items() for selector in selectors)
    monitored = objects["ServiceMonitor"]["spec"]["selector"]["matchLabels"]
    assert monitored.items() <= objects["Service"]["metadata"]["labels"].items()
    ports = {each["name"]: each for each in objects["Service"]["spec"]["ports"]}
    assert {each["name"] for each in gateway_of(objects)["ports"]} == ports.keys() == {"http", "metrics"}
    (endpoint,) = objects["ServiceMonitor"]["spec"]["endpoints"]
    assert (endpoint["port"], endpoint["path"]) == ("metrics", "/metrics")


@needs_helm
def test_metrics_have_a_port_of_their_own_that_is_not_open_to_all(tmp_path: Path) -> None:
    objects = render({**SECRET, "metrics": {"port": 9999}}, tmp_path)
    variables = {each["name"]: each["value"] for each in gateway_of(objects)["env"]}
    assert variables["GATEWAY_METRICS_LISTEN"] == "0.0.0.0:9999"
    http, metrics = objects["NetworkPolicy"]["spec"]["ingress"]
    assert "from" not in http
    assert metrics["from"] == [{"podSelector": {}}]
    http, metrics = render(EVERYTHING, tmp_path)["NetworkPolicy"]["spec"]["ingress"]
    assert http["from"] == EVERYTHING["networkPolicy"]["from"]
    assert metrics["from"] == EVERYTHING["networkPolicy"]["metricsFrom"]
    assert "NetworkPolicy" not in render(LEAST, tmp_path)


@needs_helm
def test_pods_scale_by_open_streams(tmp_path: Path) -> None:
    objects = render({**SECRET, "autoscaling": {"enabled": True, "min": 3, "max": 9}}, tmp_path)
    assert "replicas" not in objects["Deployment"]["spec"], "an upgrade would undo what the autoscaler has chosen"
    spec = objects["HorizontalPodAutoscaler"]["spec"]
    assert (spec["minReplicas"], spec["maxReplicas"]) == (3, 9)
    assert spec["scaleTargetRef"]["name"] == objects["Deployment"]["metadata"]["name"]
    (metric,) = spec["metrics"]
    assert metric["pods"]["metric"]["name"] == "gateway_streams_open"
    assert metric["pods"]["target"]["averageValue"] == str(VALUES["autoscaling"]["openStreamsPerPod"])
    assert "HorizontalPodAutoscaler" not in render(SECRET, tmp_path)


@needs_helm
def test_a_route_leads_to_the_service_without_a_deadline(tmp_path: Path) -> None:
    objects = render(EVERYTHING, tmp_path)
    route = objects["HTTPRoute"]["spec"]
    assert route["parentRefs"] == [{"name": "public"}]
    assert route["hostnames"] == ["gateway.example.com"]
    (rule,) = route["rules"]
    assert rule["timeouts"]["request"] == "0s"
    (backend,) = rule["backendRefs"]
    assert backend == {"name": objects["Service"]["metadata"]["name"], "port": 8080}
    assert not CRDS & render(SECRET, tmp_path).keys()


@needs_helm
def test_an_image_is_named_by_its_digest_its_tag_or_the_version(tmp_path: Path) -> None:
    def name_image(**image: str) -> str:
        name: str = gateway_of(render({**SECRET, "image": image}, tmp_path))["image"]
        return name

    version = yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"]
    assert name_image() == f"responses-gateway:{version}"
    assert name_image(repository="r.example.com/g", tag="1") == "r.example.com/g:1"
    assert name_image(tag="1", digest=f"sha256:{'a' * 64}") == f"responses-gateway@sha256:{'a' * 64}"


@needs_helm
@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({}, "existingSecret: config names environment variables"),
        ({**SECRET, "replica": 3}, "replica"),
        ({**SECRET, "replicas": 0}, "replicas"),
        ({**SECRET, "lingerSeconds": -1}, "lingerSeconds"),
        ({**SECRET, "metrics": {"port": 8080}}, "metrics"),
        ({**SECRET, "image": {"digest": "latest"}}, "digest"),
        ({**SECRET, "resources": {"requests": {"memory": "512Mi"}}}, "the requested memory must be the limit"),
        ({**SECRET, "httpRoute": {"enabled": True}}, "httpRoute.parentRefs"),
        ({**SECRET, "autoscaling": {"enabled": True, "min": 4, "max": 3}}, "autoscaling.max"),
    ],
)
def test_values_that_cannot_be_meant_are_refused_by_name(values: Json, reason: str, tmp_path: Path) -> None:
    assert reason in fail_to_render(values, tmp_path)


@needs_helm
def test_a_pod_of_the_chart_serves_and_passes_its_probes(tmp_path: Path) -> None:
    """The command of the container, with its variables and its configuration, as a process here."""
    objects = render(SECRET, tmp_path)
    gateway = gateway_of(objects)
    config = yaml.safe_load(objects["ConfigMap"]["data"]["config.yaml"])
    variables = {each["name"]: each["value"] for each in gateway["env"]}
    environment = {
        **variables,
        "GATEWAY_PORT": "0",
        "GATEWAY_METRICS_LISTEN": "127.0.0.1:0",
        "GATEWAY_LINGER_S": "0",
        "GATEWAY_KEY": "k" * 32,
        "STORE_URL": f"sqlite+aiosqlite:///{tmp_path / 'state.db'}",
    }
    config["providers"] = {"demo": {"type": "scripted"}}
    with command(config, tmp_path, env=environment, port=None) as server:
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            request = gateway[probe]["httpGet"]
            headers = {each["name"]: each["value"] for each in request["httpHeaders"]}
            reply = httpx.get(server.url + request["path"], headers=headers, trust_env=False, timeout=60)
            assert reply.status_code == 200
        assert httpx.get(f"{server.url}/metrics", trust_env=False, timeout=60).status_code == 404
