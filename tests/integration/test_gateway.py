"""The front door as AWS runs it: API Gateway, its TOKEN authorizer, and SQS, with no function in the path of a message
(R-501, FC-35, FC-37)."""

import io
import json
import re
import uuid
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import boto3
import httpx
import pytest

from adapters.file.token_file import add_token, remove_token
from domain.access import IssuedToken, Scope, issue_token
from entrypoints.aws_lambda import gateway
from tests.engines import REGION, Engine
from tests.entrypoints.test_http_intake import NASTY

ROOT = Path(__file__).parents[2]
SHIM = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from entrypoints.aws_lambda.authorizer import handler"
JSON = {"Content-Type": "application/json"}


@dataclass
class Door:
    """The gateway, and what stands behind it."""

    url: str
    queue_url: str
    tokens_file: Path
    sqs: Any
    number: int = 0

    def issue(self, *scopes: Scope) -> tuple[IssuedToken, dict[str, str]]:
        """Issue a token, and give it with the header that shows it."""
        self.number += 1
        later = datetime.now(UTC) + timedelta(hours=1)
        token = issue_token(f"caller {self.number}", scopes, later, bytes([self.number]) * 40)
        add_token(self.tokens_file, token.record)
        return token, {"Authorization": f"Bearer {token.text.get_secret_value()}"}

    def call(self, method: str, path: str, body: str = "{}", **headers: str) -> httpx.Response:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return httpx.request(method, self.url + path, content=body.encode(), headers={**JSON, **named}, timeout=30)

    def taken(self) -> list[dict[str, Any]]:
        found = []
        asked = {"MessageAttributeNames": ["All"], "MessageSystemAttributeNames": ["All"], "MaxNumberOfMessages": 10}
        while messages := self.sqs.receive_message(QueueUrl=self.queue_url, **asked).get("Messages", []):
            for message in messages:
                found.append(message)
                self.sqs.delete_message(QueueUrl=self.queue_url, ReceiptHandle=message["ReceiptHandle"])
        return found


@pytest.fixture(scope="module")
def door(ministack: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    if ministack.url is None:
        pytest.skip("sets up an API of its own, on the local engine")
    name, tokens_file = f"door-{uuid.uuid4().hex[:8]}", tmp_path_factory.mktemp("door") / "tokens.json"
    make: Callable[..., Any] = boto3.client
    api, functions, sqs = (
        make(service, endpoint_url=ministack.url, region_name=REGION) for service in ("apigateway", "lambda", "sqs")
    )
    queue_url = sqs.create_queue(QueueName=name)["QueueUrl"]
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("authorizer.py", SHIM)
    function = functions.create_function(
        FunctionName=name,
        Runtime="python3.11",
        Role="arn:aws:iam::000000000000:role/authorizer",
        Handler="authorizer.handler",
        Code={"ZipFile": packed.getvalue()},
        Timeout=15,
        Environment={"Variables": {"INTERLOCK_AUTH__TOKENS_FILE": str(tokens_file)}},
    )["FunctionArn"]
    api_id = set_up(api, name, function, queue_url)
    yield Door(f"{ministack.url}/restapis/{api_id}/prod/_user_request_", queue_url, tokens_file, sqs)
    api.delete_rest_api(restApiId=api_id)
    functions.delete_function(FunctionName=name)
    sqs.delete_queue(QueueUrl=queue_url)
    for client in (api, functions, sqs):
        client.close()


def set_up(api: Any, name: str, function: str, queue_url: str) -> str:
    """Make the API from the data of `entrypoints.aws_lambda.gateway`, as the infrastructure does."""
    api_id: str = api.create_rest_api(name=name, minimumCompressionSize=gateway.COMPRESSION_BYTES)["id"]
    uri = f"arn:aws:apigateway:{REGION}:lambda:path/2015-03-31/functions/{function}/invocations"
    authorizer = api.create_authorizer(restApiId=api_id, name="tokens", authorizerUri=uri, **gateway.AUTHORIZER)["id"]
    root = api.get_resources(restApiId=api_id)["items"][0]["id"]
    v1 = api.create_resource(restApiId=api_id, parentId=root, pathPart="v1")["id"]
    secured = {"authorizationType": "CUSTOM", "authorizerId": authorizer, "restApiId": api_id}
    intake = api.create_resource(restApiId=api_id, parentId=v1, pathPart="intake")["id"]
    post = {"restApiId": api_id, "resourceId": intake, "httpMethod": "POST"}
    api.put_method(**post, authorizationType="CUSTOM", authorizerId=authorizer)
    account, queue = queue_url.rsplit("/", 2)[1:]
    api.put_integration(
        **post,
        type="AWS",
        integrationHttpMethod="POST",
        uri=f"arn:aws:apigateway:{REGION}:sqs:path/{account}/{queue}",
        credentials="arn:aws:iam::000000000000:role/door",
        requestParameters=gateway.REQUEST_PARAMETERS,
        requestTemplates=dict(gateway.REQUEST_TEMPLATES),
        passthroughBehavior=gateway.PASSTHROUGH,
    )
    answers = {"": (202, gateway.ACCEPTED_TEMPLATE), **gateway.REFUSED}
    for pattern, (status, template) in answers.items():
        api.put_method_response(
            **post, statusCode=str(status), responseParameters={"method.response.header.Content-Type": False}
        )
        api.put_integration_response(
            **post,
            statusCode=str(status),
            selectionPattern=pattern,
            responseTemplates={"application/json": template},
            responseParameters=gateway.REFUSED_PARAMETERS if pattern else {},
        )
    for method, path in (("GET", "events"), ("GET", "activity"), ("GET", "secret")):
        resource = api.create_resource(restApiId=api_id, parentId=v1, pathPart=path)["id"]
        mock = {"restApiId": api_id, "resourceId": resource, "httpMethod": method}
        api.put_method(**{**secured, **mock})
        api.put_integration(**mock, type="MOCK", requestTemplates={"application/json": '{"statusCode": 200}'})
        api.put_method_response(**mock, statusCode="200")
        api.put_integration_response(**mock, statusCode="200", responseTemplates={"application/json": "{}"})
    for kind, (status, body) in gateway.GATEWAY_RESPONSES.items():
        more = gateway.UNAUTHORIZED_PARAMETERS if kind == "UNAUTHORIZED" else {}
        api.put_gateway_response(
            restApiId=api_id,
            responseType=kind,
            statusCode=str(status),
            responseTemplates={"application/json": body},
            responseParameters={**gateway.GATEWAY_PARAMETERS, **more},
        )
    for stage in ("prod", "test"):
        api.create_deployment(restApiId=api_id, stageName=stage)
    return api_id


def test_fc35_the_queue_holds_the_bytes_that_were_posted_and_nothing_else(door: Door) -> None:
    _, shown = door.issue("ingest")
    bodies = [
        NASTY,
        f"[{NASTY},{NASTY}]",
        "a=1&Action=DeleteQueue&DelaySeconds=900",
        " x ",
        '{"é":"😀' + "&+%=" * 9000 + '"}',
    ]
    for body in bodies:
        answer = door.call("POST", "/v1/intake", body, **shown)
        assert answer.status_code == 202, answer.text
        (message,) = door.taken()
        assert message["Body"] == body
        assert answer.json() == {"message_ids": [message["MessageId"]]}
        assert "MessageAttributes" not in message


def test_r501_who_gets_in_and_what_else_is_refused(door: Door) -> None:
    _, shown = door.issue("ingest")
    _, viewer = door.issue("view")
    assert door.call("POST", "/v1/intake").status_code == 401
    assert door.call("POST", "/v1/intake", Authorization="Bearer nobody").status_code == 401
    assert door.call("POST", "/v1/intake", Authorization="Basic c2VjcmV0").status_code == 401
    assert door.call("POST", "/v1/intake", **viewer).status_code == 403
    assert door.call("POST", "/v1/intake", **shown, Content_Type="text/plain").status_code == 415
    assert door.call("POST", "/v1/intake", "", **shown).status_code == 400
    assert door.call("POST", "/v1/intake", "x" * (1024 * 1024 + 1), **shown).status_code == 400
    assert door.taken() == []


def test_fc37_a_kept_answer_neither_refuses_a_permitted_path_nor_opens_a_forbidden_one(door: Door) -> None:
    _, shown = door.issue("ingest", "view")
    expected = {
        ("POST", "/v1/intake"): 202,
        ("GET", "/v1/events"): 200,
        ("GET", "/v1/activity"): 200,
        ("GET", "/v1/secret"): 403,
    }
    for _ in range(2):
        assert {call: door.call(*call, **shown).status_code for call in expected} == expected
    _, narrow = door.issue("ingest")
    assert door.call("GET", "/v1/events", **narrow).status_code == 403
    assert door.call("POST", "/v1/intake", **narrow).status_code == 202


def test_fc37_a_revoked_token_works_while_its_answer_is_kept_and_at_another_stage_no_more(door: Door) -> None:
    token, shown = door.issue("view")
    assert door.call("GET", "/v1/events", **shown).status_code == 200
    remove_token(door.tokens_file, token.record.id)
    assert door.call("GET", "/v1/activity", **shown).status_code == 200, "for 300 seconds: ADR 0017"
    test_stage = Door(door.url.replace("/prod/", "/test/"), door.queue_url, door.tokens_file, door.sqs)
    assert test_stage.call("GET", "/v1/events", **shown).status_code == 401


def test_what_the_gateway_answers_by_itself_is_a_problem(door: Door) -> None:
    answer = door.call("POST", "/v1/intake")
    assert (answer.json()["title"], answer.json()["status"]) == ("Not authenticated", 401)
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["www-authenticate"] == 'Bearer realm="interlock"'
    for status, body in gateway.GATEWAY_RESPONSES.values():
        assert json.loads(body)["status"] == status


@pytest.mark.parametrize(
    ("said", "status"),
    [
        ("One or more parameters are invalid. Reason: Message must be shorter than 1048576 bytes.", 413),
        ("The request must contain the parameter MessageBody.", 400),
    ],
)
def test_fc33_what_sqs_calls_too_long_is_413(said: str, status: int) -> None:
    """The engine knows no `#if`, so this reads the one that the template has."""
    usual, template = gateway.REFUSED[r"4\d{2}"]
    match = re.fullmatch(
        r"#if\(\$input\.body\.contains\('(?P<text>[^']+)'\)\)"
        r"#set\(\$context\.responseOverride\.status = (?P<other>\d+)\)(?P<then>\{.*\})#else(?P<otherwise>\{.*\})#end",
        template,
    )
    assert match
    answered, body = (int(match["other"]), match["then"]) if match["text"] in said else (usual, match["otherwise"])
    assert (answered, json.loads(body)["status"]) == (status, status)
