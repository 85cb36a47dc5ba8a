local session, calls, ends, index, facts = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local pictures, id, groups = KEYS[6], ARGV[1], ARGV[2]
if redis.call('EXISTS', session) == 0 then return 0 end
redis.call('HINCRBY', facts, 'size', -tonumber(redis.call('HGET', session, 'size')))
redis.call('ZREM', groups .. redis.call('HGET', session, 'grouped'), id)
redis.call('ZREM', index, id)
redis.call('ZREM', index .. ':touched', id)
redis.call('ZREM', index .. ':closed', id)
redis.call('DEL', session, calls, ends, pictures)
return 1
