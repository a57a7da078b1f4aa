allocsim gen
allocsim gen nothing -o t.zst
allocsim gen steady
allocsim gen steady,blocks=0 -o t.zst
allocsim gen steady,smallest=2MiB,largest=1MiB -o t.zst
allocsim gen churn,uses=10 -o t.zst
allocsim gen adversary,kind=robson,largest=48 -o t.zst
allocsim gen train,model=gpt-9 -o t.zst
echo text >t.txt
allocsim gen steady -o t.txt
allocsim gen steady -o missing/t.zst
echo $?
ls
allocsim gen --list
