"""JWTs: only a right signature by a key of the issuer, made by an allowed algorithm, lets somebody in."""

import asyncio
import base64
import hmac
import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from hypothesis import given
from hypothesis import strategies as st
from jwt.algorithms import ECAlgorithm, RSAAlgorithm
from pydantic import SecretStr

from adapters.file.token_file import TokenFile, add_token
from adapters.jwt import keys
from adapters.jwt.access import ALGORITHMS, JwtAccess
from adapters.jwt.keys import MAX_BYTES, KeySet, read_keys
from application.access import EitherKind
from domain.access import issue_token
from domain.claims import ClaimRules
from domain.errors import Invalid, Misconfigured, Unauthenticated, Unavailable
from entrypoints.groups.access import JWT_ALGORITHMS
from ports.access import Access
from tests.examples import START
from tests.issuer import (
    AUDIENCE,
    EC_KEY,
    ISSUER,
    RSA_KEYS,
    Issuer,
    a_token,
    an_issuer,
    by_hand,
    ec_jwk,
    key_set,
    rsa_jwk,
)

pytestmark = pytest.mark.anyio

ALLOWED = frozenset({"RS256", "ES256"})
RULES = ClaimRules(issuer=ISSUER, audience=AUDIENCE)


class Ticks:
    """A clock in seconds that its owner moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def from_file(folder: Path, *keys: dict[str, Any], allowed: frozenset[str] = ALLOWED) -> JwtAccess:
    path = folder / "key set.json"
    path.write_bytes(key_set(*keys))
    return JwtAccess(KeySet(path.as_uri(), allowed), RULES, allowed)


async def who(access: Access, token: str) -> str:
    return (await access.identify(SecretStr(token), START)).name


@pytest.fixture
def issuer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Issuer]:
    with an_issuer(tmp_path, monkeypatch.setenv) as issuer:
        yield issuer


async def test_a_token_of_the_issuer_is_its_subject_with_its_scopes(tmp_path: Path) -> None:
    access = from_file(tmp_path, rsa_jwk(), ec_jwk())
    await access.check()
    assert await access.identify(SecretStr(a_token()), START) == ("ada", {"ingest", "view"})
    assert await who(access, a_token(EC_KEY, "ES256", kid="ec", sub="bob")) == "bob"


def forgeries() -> dict[str, str]:
    """Give tokens that a careless judge would take."""
    claims = jwt.decode(a_token(), options={"verify_signature": False})
    public = (
        RSA_KEYS[0]
        .public_key()
        .public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    )
    good = a_token()
    head, _, signature = good.split(".")
    richer = base64.urlsafe_b64encode(json.dumps({**claims, "scope": "operate"}).encode()).decode().rstrip("=")
    doubled = base64.urlsafe_b64encode(json.dumps(claims).encode()[:-1] + b',"sub":"root"}').decode().rstrip("=")
    key = RSA_KEYS[0]
    signing_input = f"{by_hand({'alg': 'HS256', 'kid': 'rsa-0'}, claims).rpartition('.')[0]}"
    mac = base64.urlsafe_b64encode(hmac.digest(public, signing_input.encode(), "sha256")).decode().rstrip("=")
    return {
        "no signature": by_hand({"alg": "none", "kid": "rsa-0"}, claims),
        "no signature, odd spelling": by_hand({"alg": "nOnE", "kid": "rsa-0"}, claims),
        "the public key as a secret": f"{signing_input}.{mac}",
        "another key": a_token(RSA_KEYS[1]),
        "another key that the header brings along": a_token(RSA_KEYS[1], header={"jwk": rsa_jwk(1)}),
        "another address of keys": a_token(RSA_KEYS[1], header={"jku": "https://evil.example/"}),
        "claims that were changed": f"{head}.{richer}.{signature}",
        "claims twice": f"{head}.{doubled}.{signature}",
        "a signature that was cut": good[:-4],
        "a key that is not there": a_token(kid="rsa-9"),
        "no key": a_token(kid=None),
        "another algorithm of the same key": a_token(key, "RS384"),
        "an algorithm of another kind of key": a_token(EC_KEY, "ES256"),
        "an extension that is critical": a_token(header={"crit": ["exp"]}),
        "claims that are no object": jwt.api_jws.encode(b"[1]", key, "RS256", headers={"kid": "rsa-0"}),
        "claims with a key twice": jwt.api_jws.encode(
            json.dumps(claims).encode()[:-1] + b',"sub":"root"}', key, "RS256", headers={"kid": "rsa-0"}
        ),
        "out of date": a_token(exp=int(START.timestamp()) - 61),
        "for somebody else": a_token(aud="other"),
        "by somebody else": a_token(iss="https://evil.example/"),
        "empty": "",
        "one part": "abc",
        "four parts": good + ".x",
        "no base64": "ä.ö.ü",
        "too long": good + "x" * 20_000,
        "nested deeply": base64.urlsafe_b64encode(b"[" * 9000).decode() + ".e30.",
        "a key id of another type": by_hand({"alg": "RS256", "kid": ["rsa-0"]}, claims),
        "an algorithm of another type": by_hand({"alg": ["RS256"], "kid": "rsa-0"}, claims),
    }


@pytest.mark.parametrize("name", forgeries())
async def test_a_forgery_lets_nobody_in_and_is_not_told_why(tmp_path: Path, name: str) -> None:
    access = from_file(tmp_path, rsa_jwk(), ec_jwk())
    with pytest.raises(Unauthenticated) as refused:
        await who(access, forgeries()[name])
    assert str(refused.value) == "the token is not valid"
    assert refused.value.__cause__ is None


@given(st.text(max_size=60) | st.tuples(*[st.binary(max_size=40)] * 3).map(
    lambda parts: ".".join(base64.urlsafe_b64encode(part).decode() for part in parts)
))  # fmt: skip
def test_no_text_makes_judging_fail(text: str) -> None:
    path = Path(__file__).parent / "no such file"
    access = JwtAccess(KeySet(path.as_uri(), ALLOWED), RULES, ALLOWED)
    with pytest.raises(Unauthenticated):
        asyncio.run(who(access, text))


async def test_a_key_without_an_algorithm_serves_each_allowed_one_of_its_kind(tmp_path: Path) -> None:
    allowed = frozenset({"RS256", "PS256", "ES256"})
    access = from_file(tmp_path, rsa_jwk(alg=...), allowed=allowed)
    assert await who(access, a_token()) == "ada"
    assert await who(access, a_token(algorithm="PS256")) == "ada"
    with pytest.raises(Unauthenticated):
        await who(access, a_token(algorithm="RS512"))


async def test_a_short_key_does_not_count(tmp_path: Path) -> None:
    short = rsa.generate_private_key(65537, 1024)  # noqa: S505 - that is the point
    jwk = {**RSAAlgorithm.to_jwk(short.public_key(), as_dict=True), "kid": "short"}
    with pytest.warns(jwt.warnings.InsecureKeyLengthWarning):
        token = a_token(short, kid="short")
    with pytest.raises(Unauthenticated):
        await who(from_file(tmp_path, rsa_jwk(), jwk), token)


def test_keys_of_no_use_are_passed_over() -> None:
    other_curve = ec.generate_private_key(ec.SECP384R1()).public_key()
    raw = key_set(
        rsa_jwk(0),
        rsa_jwk(1, use="enc"),
        rsa_jwk(1, kid=...),
        rsa_jwk(1, kid=7),
        rsa_jwk(1, kid="ps", alg="PS512"),
        {"kty": "oct", "k": "c2VjcmV0", "kid": "secret", "alg": "HS256"},
        {"kty": "oct", "k": "c2VjcmV0", "kid": "secret2"},
        {"kty": "RSA", "kid": "half"},
        {"kty": "RSA", "kid": "bad", "n": "!", "e": "AQAB"},
        {"kty": "XX", "kid": "xx"},
        {"kid": "nothing"},
        {**ECAlgorithm.to_jwk(other_curve, as_dict=True), "kid": "p384"},
        ec_jwk(),
    )
    assert set(read_keys(raw, ALLOWED)) == {("rsa-0", "RS256"), ("ec", "ES256")}
    mixed = json.dumps({"keys": [5, None, "x", [], rsa_jwk()]}).encode()
    assert set(read_keys(mixed, ALLOWED)) == {("rsa-0", "RS256")}


@pytest.mark.parametrize(
    "raw",
    [b"", b"{", b"[]", b"{}", b'{"keys":{}}', b'{"keys":[]}', b'{"keys":[{}]}', b'{"keys":[' + b"{}," * 100 + b"{}]}"],
)
def test_what_is_no_key_set_is_refused(raw: bytes) -> None:
    with pytest.raises(Invalid):
        read_keys(raw, ALLOWED)


def test_no_secret_and_no_missing_signature_can_be_allowed() -> None:
    assert set(JWT_ALGORITHMS) == ALGORITHMS
    assert not {name for name in ALGORITHMS if name.startswith("HS") or name.lower() == "none"}


@pytest.mark.parametrize("url", ["http://id.example/keys", "ftp://id.example/keys", "/etc/keys", "data:,{}", ""])
def test_keys_come_over_tls_or_from_a_file(url: str) -> None:
    with pytest.raises(Misconfigured, match="https"):
        KeySet(url, ALLOWED)


async def test_keys_are_fetched_once_for_all_who_ask(issuer: Issuer) -> None:
    access = JwtAccess(KeySet(issuer.url, ALLOWED), RULES, ALLOWED)
    issuer.delay = 0.1
    async with asyncio.TaskGroup() as tasks:
        asked = [tasks.create_task(who(access, a_token())) for _ in range(50)]
    assert {task.result() for task in asked} == {"ada"}
    assert issuer.requests == 1


async def test_whoever_asks_for_keys_and_leaves_does_not_take_them_from_the_others(issuer: Issuer) -> None:
    access = JwtAccess(KeySet(issuer.url, ALLOWED), RULES, ALLOWED)
    issuer.delay = 0.1
    first = asyncio.create_task(who(access, a_token()))
    await asyncio.sleep(0.02)
    second = asyncio.create_task(who(access, a_token()))
    await asyncio.sleep(0.02)
    first.cancel()
    assert await second == "ada"


async def test_an_issuer_that_hangs_is_given_up(issuer: Issuer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "_PATIENCE_SECONDS", 0.2)
    issuer.delay = 1.0
    access = JwtAccess(KeySet(issuer.url, ALLOWED), RULES, ALLOWED)
    async with asyncio.timeout(0.8):
        with pytest.raises(Unavailable, match="TimeoutError"):
            await who(access, a_token())


async def test_a_new_key_counts_at_once_and_unknown_ones_do_not_make_us_ask_all_the_time(issuer: Issuer) -> None:
    ticks = Ticks()
    access = JwtAccess(KeySet(issuer.url, ALLOWED, monotonic=ticks), RULES, ALLOWED)
    assert await who(access, a_token()) == "ada"
    issuer.keys = key_set(rsa_jwk(0), rsa_jwk(1))
    ticks.now += 11
    assert await who(access, a_token(RSA_KEYS[1], kid="rsa-1")) == "ada"
    for number in range(20):
        with pytest.raises(Unauthenticated):
            await who(access, a_token(kid=f"nobody's {number}"))
    assert issuer.requests == 2


async def test_a_key_that_was_taken_back_counts_no_longer_than_the_setting_says(issuer: Issuer) -> None:
    ticks = Ticks()
    access = JwtAccess(KeySet(issuer.url, ALLOWED, max_age_seconds=300, monotonic=ticks), RULES, ALLOWED)
    assert await who(access, a_token()) == "ada"
    issuer.keys = key_set(rsa_jwk(1))
    ticks.now += 149
    assert await who(access, a_token()) == "ada"
    ticks.now += 151
    with pytest.raises(Unauthenticated):
        await who(access, a_token())
    assert await who(access, a_token(RSA_KEYS[1], kid="rsa-1")) == "ada"


async def test_an_issuer_that_is_away_for_a_moment_locks_nobody_out_and_for_long_everybody(issuer: Issuer) -> None:
    ticks = Ticks()
    access = JwtAccess(KeySet(issuer.url, ALLOWED, max_age_seconds=300, monotonic=ticks), RULES, ALLOWED)
    assert await who(access, a_token()) == "ada"
    issuer.status = 503
    for _ in range(9):
        ticks.now += 33
        assert await who(access, a_token()) == "ada"
    ticks.now += 33
    with pytest.raises(Unavailable):
        await who(access, a_token())
    with pytest.raises(Unavailable):
        await access.check()
    issuer.status = 200
    ticks.now += 11
    assert await who(access, a_token()) == "ada"


@pytest.mark.parametrize(
    ("trouble", "told"),
    [
        ("redirect", "answered with 302"),
        ("too large", f"over {MAX_BYTES} bytes, or too slow"),
        ("no keys", "keys: holds no key that can be used"),
        ("no json", "expected a JSON value"),
        ("not trusted", "CERTIFICATE_VERIFY_FAILED"),
        ("away", "Connection refused"),
        ("no file", "No such file or directory"),
    ],
)
async def test_keys_that_cannot_be_trusted_let_nobody_in(
    issuer: Issuer, trouble: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = issuer.url
    match trouble:
        case "redirect":
            issuer.status, issuer.headers = 302, {"Location": (tmp_path / "keys.json").as_uri()}
            (tmp_path / "keys.json").write_bytes(issuer.keys)
        case "too large":
            issuer.keys += b" " * MAX_BYTES
        case "no keys":
            issuer.keys = b'{"keys": []}'
        case "no json":
            issuer.keys = b"<html>"
        case "not trusted":
            monkeypatch.delenv("SSL_CERT_FILE")
        case "away":
            url = "https://127.0.0.1:1/keys"
        case _:
            url = (tmp_path / "gone.json").as_uri()
    access = JwtAccess(KeySet(url, ALLOWED), RULES, ALLOWED)
    with pytest.raises(Unavailable) as refused:
        await who(access, a_token())
    assert str(refused.value).startswith("JWKS is unavailable: its keys cannot be fetched: ")
    assert told in str(refused.value)


def test_fc22_one_judge_serves_one_event_loop_after_the_other(issuer: Issuer) -> None:
    ticks = Ticks()
    access = JwtAccess(KeySet(issuer.url, ALLOWED, monotonic=ticks), RULES, ALLOWED)

    async def all_at_once() -> list[str]:
        async with asyncio.TaskGroup() as tasks:
            asked = [tasks.create_task(who(access, a_token())) for _ in range(5)]
        return [task.result() for task in asked]

    for _ in range(3):
        assert asyncio.run(all_at_once()) == ["ada"] * 5
        ticks.now += 200
    assert issuer.requests == 3


async def test_trouble_with_one_kind_of_tokens_does_not_touch_the_other(tmp_path: Path) -> None:
    own = issue_token("carol", ["view"], START + timedelta(hours=1), bytes(40))
    add_token(tmp_path / "tokens.json", own.record)
    jwts = from_file(tmp_path, rsa_jwk())
    no_keys = JwtAccess(KeySet((tmp_path / "gone").as_uri(), ALLOWED), RULES, ALLOWED)
    no_tokens = TokenFile(tmp_path / "gone.json")
    both = EitherKind(TokenFile(tmp_path / "tokens.json"), jwts)
    await both.check()
    assert await who(both, own.text.get_secret_value()) == "carol"
    assert await who(both, a_token()) == "ada"
    without_keys, without_tokens = EitherKind(TokenFile(tmp_path / "tokens.json"), no_keys), EitherKind(no_tokens, jwts)
    assert await who(without_keys, own.text.get_secret_value()) == "carol"
    assert await who(without_tokens, a_token()) == "ada"
    for judge, token in ((without_keys, a_token()), (without_tokens, own.text.get_secret_value())):
        with pytest.raises(Unavailable):
            await who(judge, token)
        with pytest.raises(Unavailable):
            await judge.check()
