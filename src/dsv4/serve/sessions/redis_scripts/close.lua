local session, closed, id, now = KEYS[1], KEYS[2], ARGV[1], ARGV[2]
if redis.call('EXISTS', session) == 0 then return 0 end
if redis.call('HSETNX', session, 'closed', now) == 1 then
  redis.call('ZADD', closed, redis.call('HGET', session, 'touched'), id)
end
return 1
