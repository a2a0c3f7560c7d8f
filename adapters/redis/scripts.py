"""Scripts that run in Redis, each atomic (R-201). They touch only the keys they are given, so a Cluster can tell where.

`PEXPIRE … GT` lengthens an expiry and never shortens one; it leaves a key without expiry alone, which `NX` catches.
Both need Redis 7.0.
"""

from hashlib import sha1
from typing import Final, NamedTuple


class Script(NamedTuple):
    """A script, and the name that Redis caches it under."""

    source: str
    sha: str


def _script(source: str) -> Script:
    return Script(source, sha1(source.encode(), usedforsecurity=False).hexdigest())


_EXTEND: Final = """
local function extend(key, ttl)
  if redis.call('PEXPIRE', key, ttl, 'GT') == 0 then redis.call('PEXPIRE', key, ttl, 'NX') end
end
"""
_HAS_VALUE: Final = """
local now = redis.call('TIME')
now = now[1] * 1000 + now[2] / 1000
local function has_value(entry)
  local expires = redis.call('ZSCORE', KEYS[1], entry)
  return expires and tonumber(expires) > now
end
"""

# KEYS: values, buckets …   ARGV: ttl in ms, then for each key the place of its bucket in KEYS, and the entry.
# Gives 1 for each new key, else 0. A bucket of another type is reported once the others have got their expiry.
CLAIM: Final = _script(
    _EXTEND
    + """
local added, failed = {}, nil
for i = 2, #ARGV, 2 do
  local answer = redis.pcall('SADD', KEYS[tonumber(ARGV[i])], ARGV[i + 1])
  if type(answer) == 'table' then failed = answer else added[i / 2] = answer end
end
for i = 2, #KEYS do extend(KEYS[i], ARGV[1]) end
if failed then return failed end
if redis.call('EXISTS', KEYS[1]) == 1 then
"""
    + _HAS_VALUE
    + """
  for i = 1, #added do
    if added[i] == 1 and has_value(ARGV[2 * i + 1]) then added[i] = 0 end
  end
end
return added
"""
)

# KEYS: values, buckets …   ARGV: for each key the place of its bucket in KEYS, and the entry.
EXIST: Final = _script(
    _HAS_VALUE
    + """
local known = {}
for i = 1, #ARGV, 2 do
  local held = redis.call('SISMEMBER', KEYS[tonumber(ARGV[i])], ARGV[i + 1])
  if held == 0 and has_value(ARGV[i + 1]) then held = 1 end
  known[#known + 1] = held
end
return known
"""
)

# KEYS: value, bucket   ARGV: entry
GET: Final = _script("""
local value = redis.call('GET', KEYS[1])
if value then return value end
return redis.call('SISMEMBER', KEYS[2], ARGV[1]) == 1 and '' or nil
""")

# KEYS: value, values   ARGV: entry, value, ttl in ms. Values that expired leave the sorted set here.
PUT: Final = _script(
    _EXTEND
    + """
local now = redis.call('TIME')
now = now[1] * 1000 + math.floor(now[2] / 1000)
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now)
redis.call('ZADD', KEYS[2], now + ARGV[3], ARGV[1])
extend(KEYS[2], ARGV[3])
"""
)

# KEYS: some buckets
COUNT: Final = _script("""
local keys = 0
for i = 1, #KEYS do keys = keys + redis.call('SCARD', KEYS[i]) end
return keys
""")

# KEYS: some buckets. One that holds another type counts nothing, and goes too.
FORGET: Final = _script("""
local keys = 0
for i = 1, #KEYS do
  local held = redis.pcall('SCARD', KEYS[i])
  if type(held) == 'number' then keys = keys + held end
end
redis.call('UNLINK', unpack(KEYS))
return keys
""")
