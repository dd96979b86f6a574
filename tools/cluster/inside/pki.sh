#!/bin/bash
# pki.sh FOLDER: the cluster's certificates, by openssl alone.
set -e; mkdir -p "$1"; cd "$1"
[ -f ca.crt ] || openssl req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.crt -days 3650 -subj /CN=lab-ca 2>/dev/null
[ -f sa.key ] || { openssl genrsa -out sa.key 2048 2>/dev/null; openssl rsa -in sa.key -pubout -out sa.pub 2>/dev/null; }
mk(){ [ -f $1.crt ] && return 0
 openssl req -newkey rsa:2048 -nodes -keyout $1.key -out $1.csr -subj "$2" 2>/dev/null
 printf 'extendedKeyUsage=serverAuth,clientAuth\n%s\n' "$3" > $1.ext
 openssl x509 -req -in $1.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 3650 -extfile $1.ext -out $1.crt 2>/dev/null; }
mk apiserver /CN=kube-apiserver 'subjectAltName=DNS:localhost,DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc,IP:127.0.0.1,IP:10.123.0.1,IP:10.96.0.1'
mk kubelet-client /O=system:masters/CN=apiserver-kubelet-client
mk admin /O=system:masters/CN=admin
mk kcm /CN=system:kube-controller-manager
mk sched /CN=system:kube-scheduler
for i in 1 2; do mk node$i /O=system:nodes/CN=system:node:node$i "subjectAltName=DNS:node$i,IP:10.123.0.1$i"; done
kc(){ cat > $1.kubeconfig <<K
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://$2:6443", certificate-authority-data: $(base64 -w0 ca.crt)}}]
users: [{name: u, user: {client-certificate-data: $(base64 -w0 $1.crt), client-key-data: $(base64 -w0 $1.key)}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
K
}
kc admin 127.0.0.1; kc kcm 127.0.0.1; kc sched 127.0.0.1; kc node1 10.123.0.1; kc node2 10.123.0.1
