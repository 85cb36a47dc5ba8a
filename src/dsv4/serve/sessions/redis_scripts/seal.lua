-- A seal of fewer calls than the one that is there came too late.
local session, ended, seal = KEYS[1], tonumber(ARGV[1]), ARGV[2]
if redis.call('EXISTS', session) == 0 then return 0 end
if ended < tonumber(redis.call('HGET', session, 'sealed') or 0) then return 0 end
redis.call('HSET', session, 'sealed', ended, 'seal', seal)
return 1
