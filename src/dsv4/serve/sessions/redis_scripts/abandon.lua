local session, calls = KEYS[1], KEYS[2]
for n = 1, #ARGV do
  redis.call('HDEL', calls, 'n:' .. ARGV[n], 'w:' .. ARGV[n], 't:' .. ARGV[n])
end
redis.call('HINCRBY', session, 'turns', -1)
redis.call('HINCRBY', session, 'calls', -#ARGV)
