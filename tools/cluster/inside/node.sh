#!/bin/bash
# A node: waits for its card, then containerd and kubelet. Pods of the other node are routed.
M=$1 I=${1#node} P=/lab/pki B=/lab/bin L=/lab/log
until ip link show eth0 >/dev/null 2>&1; do sleep 0.1; done
ip addr add 10.123.0.1$I/24 dev eth0; ip link set eth0 up; ip route add default via 10.123.0.1; echo 1 > /proc/sys/net/ipv4/ip_forward
for j in 1 2; do [ $j != $I ] && ip route add 10.200.$((j-1)).0/24 via 10.123.0.1$j; done
mkdir -p /etc/containerd /etc/cni/net.d /run/containerd
cat > /etc/containerd/config.toml <<C
version = 2
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "k8s.gcr.io/pause:3.2"
  disable_apparmor = true
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".containerd]
    default_runtime_name = "crun"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.crun]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.crun.options]
        BinaryName = "/usr/bin/crun"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "/etc/cni/net.d"
C
cat > /etc/cni/net.d/10-ptp.conflist <<C
{"cniVersion":"0.4.0","name":"podnet","plugins":[
 {"type":"ptp","ipMasq":false,"mtu":1500,"ipam":{"type":"host-local","ranges":[[{"subnet":"10.200.$((I-1)).0/24"}]],"routes":[{"dst":"0.0.0.0/0"}]}},
 {"type":"portmap","capabilities":{"portMappings":true}}]}
C
cat > /run/kubelet.yaml <<C
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: $P/ca.crt}}
authorization: {mode: Webhook}
tlsCertFile: $P/$M.crt
tlsPrivateKeyFile: $P/$M.key
cgroupDriver: cgroupfs
clusterDNS: [10.123.0.1]
clusterDomain: cluster.local
failSwapOn: false
evictionHard: {memory.available: "100Mi", nodefs.available: "1%", imagefs.available: "1%"}
resolvConf: /etc/resolv.conf
address: 10.123.0.1$I
healthzBindAddress: 127.0.0.1
imageGCHighThresholdPercent: 100
nodeStatusUpdateFrequency: 5s
C
touch /etc/resolv.conf
start(){ n=$1; shift; setsid "$@" > "$L/$M-$n.log" 2>&1 & }
start containerd containerd
until ctr version >/dev/null 2>&1; do sleep 0.2; done
for f in /lab/img/*.tar; do ctr -n k8s.io image import "$f"; done
start policy python3 /lab/inside/policy.py "$M"
# A kubelet that ends is started again, as systemd does.
supervise(){ n=$1; shift; setsid bash -c 'while :; do "$@"; sleep 1; done' "$n" "$@" > "$L/$M-$n.log" 2>&1 & }
supervise kubelet $B/kubelet --config=/run/kubelet.yaml --kubeconfig=$P/$M.kubeconfig --container-runtime=remote \
  --container-runtime-endpoint=unix:///run/containerd/containerd.sock --node-ip=10.123.0.1$I --hostname-override=$M \
  --node-labels=hotdesk=desks --register-with-taints=hotdesk=desks:NoSchedule --root-dir=/var/lib/kubelet --v=2
wait
