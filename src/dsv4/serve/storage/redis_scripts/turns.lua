-- Puts a turn, or deletes one: one step for the server, so that two workers never see half of a
-- change. Names are kept beside the value to be removed with it; the index, by time, shows the
-- oldest.
local index, sizes, total = KEYS[1], KEYS[2], KEYS[3]
local function forget(key)
  local listed = redis.call('HGET', key, 'names')
  if listed then
    for _, name in ipairs(cjson.decode(listed)) do
      if redis.call('GET', name) == key then redis.call('DEL', name) end
    end
  end
  redis.call('DEL', key)
  redis.call('ZREM', index, key)
  local was = redis.call('HGET', sizes, key)
  if was then redis.call('DECRBY', total, was); redis.call('HDEL', sizes, key) end
end

if #ARGV == 0 then  -- to delete the turn with the name KEYS[4]
  local found = redis.call('GET', KEYS[4])
  if not found then return 0 end
  forget(found)
  return 1
end

local own, value, names, size = KEYS[4], ARGV[1], cjson.decode(ARGV[2]), tonumber(ARGV[3])
local most, most_bytes, seconds, clock = tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[6], ARGV[7]
-- A full server refuses this, and with it the whole rest of the script. After the first deletion it
-- would accept the rest without an error.
redis.call('SET', own .. ':probe', '', 'EX', 1)
redis.call('DEL', own .. ':probe')
forget(own)
if size > most_bytes then return end  -- all others would have to be removed for it
redis.call('HSET', own, 'value', value, 'names', ARGV[2])
redis.call('EXPIRE', own, seconds)
for _, name in ipairs(names) do redis.call('SET', name, own, 'EX', seconds) end
local now = redis.call('INCR', clock)
redis.call('ZADD', index, now, own)
redis.call('HSET', sizes, own, size)
redis.call('INCRBY', total, size)
while redis.call('ZCARD', index) > most or tonumber(redis.call('GET', total)) > most_bytes do
  local oldest = redis.call('ZRANGE', index, 0, 0)[1]
  if not oldest then break end
  forget(oldest)
end
