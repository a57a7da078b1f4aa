allocsim estimate gpt-9
echo $?
printf '{"hidden_size": 3' > config.json
allocsim estimate ./config.json
echo $?
allocsim estimate ./missing.json
echo $?
allocsim estimate llama-3-8b --precision fp12
echo $?
allocsim estimate llama-3-8b --formula published --offload 3
echo $?
allocsim estimate deepseek-r1 --serve-log
echo $?
