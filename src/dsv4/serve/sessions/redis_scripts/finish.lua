local session, calls, ends, facts, touched = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local call, value, sampled, now = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
if redis.call('EXISTS', session) == 0 then return 0 end
redis.call('HSET', calls, 'v:' .. call, value, 'e:' .. call,
  redis.call('HINCRBY', session, 'ended', 1))
redis.call('HINCRBY', session, 'sampled', sampled)
redis.call('HINCRBY', session, 'size', #value)
redis.call('HINCRBY', facts, 'size', #value)
redis.call('HSET', session, 'touched', now)
redis.call('ZADD', touched, now, redis.call('HGET', session, 'id'))
for n = 5, #ARGV, 2 do redis.call('ZADD', ends, 'NX', ARGV[n], ARGV[n + 1]) end
return 1 + redis.call('HEXISTS', session, 'closed')
