"""The redaction policy in force (R-403)."""

from pydantic import SecretBytes

from domain.errors import Invalid, Misconfigured
from domain.redaction import RedactionPolicy, read_policy
from entrypoints.settings import Settings, variable


def load_policy(settings: Settings) -> RedactionPolicy:
    """Give the policy that readers of activity are under.

    Raises:
        Misconfigured: its file cannot be read, or does not hold a policy.
    """
    file, key = settings.activity.redaction_file, settings.activity.pseudonym_key
    try:
        policy = RedactionPolicy() if file is None else read_policy(file.read_bytes())
    except OSError as error:
        reason = f"{file} cannot be read: {error.strerror}"
        raise Misconfigured(variable(("activity", "redaction_file")), reason) from error
    except Invalid as error:
        raise Misconfigured(variable(("activity", "redaction_file")), f"{file}: {error}") from None
    if key is None:
        return policy
    return policy.model_copy(update={"pseudonym_key": SecretBytes(key.get_secret_value().encode())})
