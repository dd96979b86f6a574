#!/bin/bash
# The control plane: a bridge, etcd, apiserver, controller-manager, scheduler.
ip link add br0 type bridge; ip addr add 10.123.0.1/24 dev br0; ip link set br0 up; echo 1 > /proc/sys/net/ipv4/ip_forward
for a in 169.254.169.254 203.0.113.7; do ip addr add $a/32 dev lo; done  # metadata of a cloud, and a public host
for i in 1 2; do ip route add 10.200.$((i-1)).0/24 via 10.123.0.1$i; done
P=/lab/pki B=/lab/bin L=/lab/log; export ETCD_UNSUPPORTED_ARCH=$(dpkg --print-architecture)
start(){ n=$1; shift; setsid "$@" > "$L/$n.log" 2>&1 & }
start etcd etcd --data-dir /var/lib/etcd/d --listen-client-urls http://127.0.0.1:2379 --advertise-client-urls http://127.0.0.1:2379 \
  --listen-peer-urls http://127.0.0.1:2380 --unsafe-no-fsync
start apiserver $B/kube-apiserver --etcd-servers=http://127.0.0.1:2379 --bind-address=0.0.0.0 --advertise-address=10.123.0.1 \
  --secure-port=6443 --insecure-port=0 --tls-cert-file=$P/apiserver.crt --tls-private-key-file=$P/apiserver.key \
  --client-ca-file=$P/ca.crt --cert-dir=/run/apiserver --kubelet-client-certificate=$P/kubelet-client.crt \
  --kubelet-client-key=$P/kubelet-client.key --kubelet-certificate-authority=$P/ca.crt --kubelet-preferred-address-types=InternalIP \
  --service-account-key-file=$P/sa.pub --service-account-signing-key-file=$P/sa.key \
  --service-account-issuer=https://kubernetes.default.svc --service-cluster-ip-range=10.96.0.0/16 --authorization-mode=Node,RBAC \
  --audit-policy-file=/lab/inside/audit.yaml --audit-log-path=/lab/log/audit.json \
  --enable-admission-plugins=NodeRestriction --allow-privileged=true --v=1
until curl -sf --cacert $P/ca.crt --cert $P/admin.crt --key $P/admin.key https://127.0.0.1:6443/readyz >/dev/null 2>&1; do sleep 0.2; done
start kcm $B/kube-controller-manager --kubeconfig=$P/kcm.kubeconfig --authentication-kubeconfig=$P/kcm.kubeconfig \
  --authorization-kubeconfig=$P/kcm.kubeconfig --service-account-private-key-file=$P/sa.key --root-ca-file=$P/ca.crt \
  --use-service-account-credentials=true --allocate-node-cidrs=true --cluster-cidr=10.200.0.0/16 --leader-elect=false \
  --node-monitor-grace-period=20s --pod-eviction-timeout=20s --cert-dir=/run/kcm --v=1
start sched $B/kube-scheduler --kubeconfig=$P/sched.kubeconfig --leader-elect=false --cert-dir=/run/sched --v=1
start dns python3 /lab/inside/dns.py
wait
