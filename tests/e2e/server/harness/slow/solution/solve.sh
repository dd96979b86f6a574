#!/bin/bash
echo begun >/work/begun
sleep 600
echo done >/work/done
