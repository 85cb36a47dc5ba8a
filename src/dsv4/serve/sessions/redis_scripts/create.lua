local session, index, facts, group = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
if redis.call('EXISTS', session) == 1 then return 0 end
local number = redis.call('HINCRBY', facts, 'clock', 1)
redis.call('HSET', session, 'number', number, 'id', ARGV[1], 'owner', ARGV[2], 'grouped', ARGV[3],
  'said', ARGV[4], 'created', ARGV[5], 'touched', ARGV[5], 'turns', 0, 'calls', 0, 'sampled', 0,
  'size', ARGV[6], 'complete', 1)
redis.call('ZADD', index, number, ARGV[1])
redis.call('HINCRBY', facts, 'size', ARGV[6])
redis.call('ZADD', index .. ':touched', ARGV[5], ARGV[1])
if ARGV[3] ~= '' then redis.call('ZADD', group, number, ARGV[1]) end
return 1
