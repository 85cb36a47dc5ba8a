-- Replaces the stored value if it is the one that the caller expects, and returns the value that is
-- stored then. The time is the server's: clocks of machines differ.
local kept = redis.call('GET', KEYS[1]) or ''
if ARGV[2] ~= '' and kept == ARGV[1] then
  redis.call('SET', KEYS[1], ARGV[2], 'EX', ARGV[3])
  kept = ARGV[2]
end
local now = redis.call('TIME')
return {kept, now[1]}
