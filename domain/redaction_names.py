"""Which names speak of secrets, and which of persons, in whatever style they are spelled (R-403, FC-29).

A name is cut into words (`apiKey`, `API_KEY`, `x-api-key` and `APIKey` alike), and every run of its words, joined, is
looked up. So `tokenizer` and `secretary` are plain words, while `userAccessToken` holds a token.
"""

import re
import unicodedata
from collections.abc import Collection, Iterator
from typing import Final, Literal, NamedTuple

NameKind = Literal["plain", "secret", "personal"]

MAX_NAME: Final = 256
"""Characters of a key that are read as a name: the first and the last so many."""

MAX_CACHED: Final = 4096


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


SECRET_NAMES: Final = _set(
    """
    password passwords passwd pwd passphrase passcode pin secret secrets token tokens apikey apikeys accesskey
    accesskeys secretkey secretkeys privatekey privatekeys encryptionkey signingkey accountkey sharedkey masterkey
    sshkey licensekey authkey sessionkey authorization bearer credential credentials creds cookie cookies sessionid
    phpsessid jsessionid csrf xsrf otp totp onetimecode verificationcode authcode authorizationcode recoverycode
    recoverycodes backupcode backupcodes resetcode securitycode cvv cvv2 cvc cvc2 csc signature signatures jwt
    connectionstring seedphrase mnemonic userpass dbpass smtppass passwort kennwort motdepasse contrasena contraseña
    senha pw pswd hmackey storagekey deploykey clientassertion magiclink smscode mfacode twofactorcode sessid
    """
)
"""Words, and joined words, that make a name secret wherever they stand in it."""

SECRET_WHOLE_NAMES: Final = frozenset({"auth", "xauth", "basicauth", "proxyauth", "pass", "sig", "sid", "salt", "dsn"})
"""Names that are secret only as a whole: their words mean other things elsewhere."""

PERSONAL_NAMES: Final = _set(
    """
    email emails emailaddress phone phones phonenumber telephone mobile mobilenumber cellphone msisdn fax firstname
    lastname fullname surname givenname familyname middlename maidenname birthname birthdate dateofbirth dob birthday
    ssn socialsecurity nationalid taxid passport driverlicense driverslicense driverlicence iban bankaccount
    accountnumber routingnumber sortcode cardnumber cardholder creditcard debitcard street homeaddress postaladdress
    billingaddress shippingaddress deliveryaddress mailingaddress addressline ccnumber cardno accountno nickname
    nationalinsurance vatnumber postalcode postcode zipcode licenseplate customername
    """
)
"""Words, and joined words, that make a name personal wherever they stand in it."""

PERSONAL_WHOLE_NAMES: Final = frozenset({"address", "addresses", "addr", "pan", "tel", "mail", "zip", "nino", "tin"})

IP_NAMES: Final = frozenset({"ip", "ips", "ipaddress", "remoteaddr", "xforwardedfor", "clientip", "remoteip"})
"""Personal names where IP addresses are masked."""

URL_NAMES: Final = frozenset({"key", "code", "state"})
"""Secret as parameters of a URL only."""

_DESCRIBING: Final = _set(
    """
    count counts type types length len size limit limits policy strategy at until expiry expires expiration expired
    ttl age required enabled disabled verified valid strength status endpoint format version algorithm alg method
    provider issuer usage used budget rate template sent changed updated created exists present optional preferences
    """
)
"""Last words that make a name one about the secret, and not of it: `token_type`, `password_changed_at`."""

_AMOUNTS: Final = frozenset({"max", "min", "num", "total", "prompt", "completion", "input", "output", "cached"})
"""First words that make `tokens` a number of them."""

_ENDINGS: Final = (
    *("password", "passwords", "passwd", "passphrase", "secret", "secrets", "token", "tokens", "apikey", "apikeys"),
    *("privatekey", "secretkey", "accesskey", "credential", "credentials"),
)
_BEGINNINGS: Final = ("password", "passwd", "apikey", "secretkey", "privatekey")
_PERSONAL_ENDINGS: Final = ("email", "emailaddress", "phonenumber", "cardnumber", "telephone")

_LABELS: Final = _set("key name field header attribute param parameter property variable label k option setting column")
_VALUES: Final = _set(
    "value values val v content contents text data from to old new before after current previous default string"
)

_WORD: Final = re.compile(r"[A-Z]++(?![a-z])|[A-Z]?[a-z]++|[0-9]++|[^\W\d_A-Za-z]++|[A-Z]")
_MARKS: Final = re.compile(r"\[[a-z_]{2,16}(?::[a-p]{24})?\]| #[0-9]{1,9}$")
_MAX_WORDS: Final = 12
MAX_RUN: Final = 10
"""Words of the longest name that is looked for."""
_LONGEST_FIELD: Final = 40


class Name(NamedTuple):
    """What a name says of the value under it.

    Attributes:
        kind: whether the value is a secret, personal, or neither.
        term: what in the name says so.
        whole_line: in text, its value goes to the end of the line, as those of `Authorization` and `Cookie` do.
        is_label: its value may be a name itself, as in `{"key": "password", "value": "x"}`.
        is_value: it may hold the value of such a name.
    """

    kind: NameKind
    term: str = ""
    whole_line: bool = False
    is_label: bool = False
    is_value: bool = False


PLAIN: Final = Name("plain")


def words_of(name: str) -> list[str]:
    """Cut a name into its words, in lower case; of a name of very many, the first and the last ones."""
    if len(name) > 2 * MAX_NAME:
        name = f"{name[:MAX_NAME]} {name[-MAX_NAME:]}"
    if not name.isascii():
        name = unicodedata.normalize("NFKC", name)  # full-width and other styled letters, and letters with marks apart
    words = [word.lower() for word in _WORD.findall(name)]
    return words if len(words) <= 2 * _MAX_WORDS else words[:_MAX_WORDS] + words[-_MAX_WORDS:]


class NameRules:
    """The names of one policy. What was said of a name is remembered, for a bounded number of names.

    Args:
        secret: further secret names, in any style.
        personal: further personal names, in any style.
        plain: names, in any style, that are neither, whatever words they hold.
        with_ips: whether names of IP addresses are personal.
    """

    def __init__(
        self, secret: Collection[str], personal: Collection[str], plain: Collection[str], *, with_ips: bool
    ) -> None:
        """Put the names together."""
        self._secret = SECRET_NAMES | {_joined(name) for name in secret}
        self._personal = (
            PERSONAL_NAMES | {_joined(name) for name in personal} | (IP_NAMES if with_ips else frozenset[str]())
        )
        self._plain = frozenset(_joined(name) for name in plain)
        self.known: dict[str, Name] = {}

    def judge(self, name: str) -> Name:
        """Say what a name means. Marks in it, and the number of one, say nothing."""
        if "[" in name or "#" in name:
            name = _MARKS.sub(" ", name)
        return self._judge(words_of(name))

    def look_up(self, name: str) -> Name:
        """Say what a name means, and remember it."""
        found = self.judge(name)
        if len(self.known) >= MAX_CACHED:
            self.known.clear()
        if len(name) <= MAX_NAME:
            self.known[name] = found
        return found

    def terms(self) -> Iterator[tuple[NameKind, str]]:
        """Give every name that is looked for, as reports call it."""
        for term in sorted(self._secret | SECRET_WHOLE_NAMES):
            yield "secret", term
        for term in sorted(self._personal | PERSONAL_WHOLE_NAMES):
            yield "personal", term

    def _judge(self, words: list[str]) -> Name:
        """Judge a name.

        | its words | kind |
        |---|---|
        | are a name that the policy calls plain | plain |
        | end with a describing word, as in `token_count` | plain |
        | begin with an amount and end with `tokens` | plain |
        | hold a secret term | secret |
        | hold a personal term | personal |
        | anything else | plain |
        """
        whole = "".join(words)
        if not words or whole in self._plain:
            return PLAIN
        if len(words) > 1 and (words[-1] in _DESCRIBING or (words[0] in _AMOUNTS and words[-1] == "tokens")):
            return PLAIN
        if term := self._secret_term(words, whole):
            return Name("secret", term, whole_line=term in {"authorization", "cookie", "cookies"})
        if term := self._personal_term(words, whole):
            return Name("personal", term)
        is_label, is_value = words[-1] in _LABELS, words[-1] in _VALUES
        return Name("plain", is_label=is_label, is_value=is_value) if is_label or is_value else PLAIN

    def _secret_term(self, words: list[str], whole: str) -> str:
        if whole in SECRET_WHOLE_NAMES:
            return whole
        if found := next((run for run in _runs(words) if run in self._secret), ""):
            return found
        for word in words:
            for ending in _ENDINGS:
                if word.endswith(ending):
                    return ending
            for beginning in _BEGINNINGS:
                if word.startswith(beginning):
                    return beginning
        return ""

    def _personal_term(self, words: list[str], whole: str) -> str:
        if whole in PERSONAL_WHOLE_NAMES:
            return whole
        if found := next((run for run in _runs(words) if run in self._personal), ""):
            return found
        return next((ending for word in words for ending in _PERSONAL_ENDINGS if word.endswith(ending)), "")


def can_match(name: str) -> bool:
    """Say whether a name that is to be looked for could ever be found."""
    return 1 <= len(words_of(name)) <= MAX_RUN


def is_field_name(key: str) -> bool:
    """Say whether a key is clearly the name of a field and nothing else: a few whole words of letters.

    A key below a secret name may be the secret itself, so this doubts: `old` and `createdAt` are, `hunter2` and
    `kJhGfDs` are not.
    """
    if len(key) > _LONGEST_FIELD or not all(part.isascii() and part.isalpha() for part in re.split("[_.-]", key)):
        return False
    words = words_of(key)
    return len(words) == 1 or len(key) >= 3 * len(words)


def _joined(name: str) -> str:
    return "".join(words_of(name))


def _runs(words: list[str]) -> Iterator[str]:
    """Give the words of a name, and every few neighbours of them joined."""
    for start in range(len(words)):
        run = ""
        for word in words[start : start + MAX_RUN]:
            run += word
            yield run
