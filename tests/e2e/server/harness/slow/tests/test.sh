#!/bin/bash
[ -e /work/begun ] && [ ! -e /work/done ] && reward=0.5 || reward=0
echo "$reward" >/logs/verifier/reward.txt
