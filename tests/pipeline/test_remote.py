"""Finished artifacts in an S3-compatible store: pushed, pulled into a fresh clone, where nothing runs again.

It needs two packages that the project does not: `pip install dvc-s3 "moto[server]"`.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ..pipelines import Project, Ran
from .test_dag import started

server = pytest.importorskip("moto.server")
pytest.importorskip("dvc_s3")
KEYS = {"AWS_ACCESS_KEY_ID": "one", "AWS_SECRET_ACCESS_KEY": "two", "AWS_DEFAULT_REGION": "us-east-1"}


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of a server on loopback that has an empty bucket, `artifacts`."""
    boto3 = pytest.importorskip("boto3")
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)
    running = server.ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    running.start()
    address = "http://{}:{}".format(*running.get_host_and_port())
    boto3.client("s3", endpoint_url=address).create_bucket(Bucket="artifacts")
    yield address
    running.stop()


def test_a_fresh_clone_pulls_and_runs_nothing(
    reproduced: tuple[Project, Ran], copy_of: Callable[..., Project], store: str, tmp_path: Path
) -> None:
    copy = copy_of(reproduced[0])
    made = Project(copy.folder, copy.environment | KEYS)
    for arguments in (["add", "--default", "store", "s3://artifacts"], ["modify", "store", "endpointurl", store]):
        assert made.dvc("remote", *arguments).status == 0
    pushed = made.dvc("push")
    assert pushed.status == 0, pushed.output
    made.git("commit", "--quiet", "--message=A remote", ".dvc/config")
    made.git("clone", "--quiet", str(made.folder), str(tmp_path / "clone"))
    clone = Project(tmp_path / "clone", made.environment)
    pulled = clone.dvc("pull")
    assert pulled.status == 0, pulled.output
    again = clone.dvc("repro", "--all-pipelines")
    assert (again.status, started(again)) == (0, []), again.output
    assert clone.hashes("data", "metrics") == made.hashes("data", "metrics")
