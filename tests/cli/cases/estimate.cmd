allocsim estimate deepseek-r1 --precision fp8 --concurrency 30 --formula published
allocsim estimate llama-3-70b --precision fp16 --input 1024 --output 0 --formula published | grep 'KV cache  '
allocsim estimate llama-3-70b --precision fp16 --input 8192 --output 0 --formula published | grep 'KV cache  '
allocsim estimate deepseek-r1 --precision int4 --formula published | grep ^model
allocsim estimate deepseek-r1 --precision int4 --serve-log --weights 42.59GiB --non-torch 2.30GiB --activation-peak 1.42GiB --gpus 8
allocsim estimate llama-3-8b --input 4096 --output 4096 --concurrency 2 --format json | grep kv_
