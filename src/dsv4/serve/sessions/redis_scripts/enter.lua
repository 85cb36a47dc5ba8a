local session, calls, index, facts = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local owner, now, idle, most = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
if redis.call('HGET', session, 'owner') ~= owner then return 'unknown' end
local touched = tonumber(redis.call('HGET', session, 'touched'))
if redis.call('HEXISTS', session, 'closed') == 1 or tonumber(now) - touched > idle then
  return 'closed'
end
if tonumber(redis.call('HGET', facts, 'size') or 0) > most then return 'full' end
local weights = redis.call('HGET', facts, 'weights') or 'null'
local before = redis.call('HGETALL', session)
for n = 5, #ARGV do
  redis.call('HSET', calls, 'n:' .. ARGV[n], redis.call('HINCRBY', facts, 'clock', 1),
    'w:' .. ARGV[n], weights, 't:' .. ARGV[n], now)
end
redis.call('HINCRBY', session, 'turns', 1)
redis.call('HINCRBY', session, 'calls', #ARGV - 4)
redis.call('HSET', session, 'touched', now)
redis.call('ZADD', index .. ':touched', now, redis.call('HGET', session, 'id'))
return {weights, before}
