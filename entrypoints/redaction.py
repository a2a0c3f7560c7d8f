"""The redaction policy in force (R-403)."""

from dataclasses import replace

from adapters.file.regular import read_setting
from domain.redaction import RedactionPolicy, read_policy
from entrypoints.settings import Settings, variable


def load_policy(settings: Settings) -> RedactionPolicy:
    """Give the policy that readers are under: what its file says, and the settings beside it.

    Raises:
        Misconfigured: its file cannot be read, or does not hold a policy.
    """
    file, key = settings.redaction.policy_file, settings.redaction.pseudonym_key
    name = variable(("redaction", "policy_file"))
    policy = RedactionPolicy() if file is None else read_setting(file, name, read_policy)
    return replace(
        policy,
        mask_ips=policy.mask_ips or settings.redaction.mask_ips,
        pseudonym_key=None if key is None else key.get_secret_value().encode(),
    )
