#!/bin/bash
printf 'apple\npear\nquince\n' | cmp - /work/answer.txt && reward=1 || reward=0
cp /work/built-by.txt /logs/verifier/
echo "$reward" >/logs/verifier/reward.txt
