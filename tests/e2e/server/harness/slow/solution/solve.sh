#!/bin/bash
echo begun >/task/begun
sleep 600
echo done >/task/done
