#!/bin/bash
# build.sh WORK OUT POOL: build Kubernetes 1.20.2 from Debian's source package into OUT. POOL is the address of its folder.
# Two changes are needed: reflect2 of Debian in place of the vendored one (which fails on Go >= 1.18), and an OpenAPI file
# that the source package does not have.
set -euo pipefail
W=$1 OUT=$2 POOL=$3
SOURCE=kubernetes_1.20.5+really1.20.2
mkdir -p "$W"/{src,debs,gopath/src/k8s.io,bin} "$OUT"
cd "$W/src"
curl -sSfO "$POOL/$SOURCE.orig.tar.gz"
curl -sSfO "$POOL/$SOURCE-1.1+deb12u1.debian.tar.xz"
echo "b83c0780efb182d928dc63d46488a847f161f04e40a94b96bf5247dd671ecdfc  $SOURCE.orig.tar.gz" | sha256sum --check --quiet
tar xf ./*.debian.tar.xz; tar xzf ./*.orig.tar.gz
mv kubernetes-1.20.2 "$W/gopath/src/k8s.io/kubernetes"; cd "$W/gopath/src/k8s.io/kubernetes"
for p in $(cat "$W/src/debian/patches/series"); do patch -p1 -s < "$W/src/debian/patches/$p"; done
(cd "$W/debs"; apt-get -qq download golang-1.19-go golang-1.19-src golang-github-modern-go-reflect2-dev kubernetes-client)
for f in "$W"/debs/golang-1.19-*.deb; do dpkg -x "$f" "$W/go"; done
dpkg -x "$W"/debs/golang-github-modern-go-reflect2-dev*.deb "$W/reflect2"
dpkg -x "$W"/debs/kubernetes-client*.deb "$W/client"; cp "$W/client/usr/bin/kubectl" "$OUT/"
rm -rf vendor/github.com/modern-go/reflect2
cp -r "$W/reflect2/usr/share/gocode/src/github.com/modern-go/reflect2" vendor/github.com/modern-go/
export GOROOT=$W/go/usr/lib/go-1.19 GOPATH=$W/gopath GOCACHE=$W/gocache GO111MODULE=off GOPROXY=off CGO_ENABLED=0
export PATH=$GOROOT/bin:$PATH
export GOGC=400 GOFLAGS="${GOFLAGS:-} -gcflags=all=-dwarf=false"  # less work: fewer collections, no debugging tables
[ -e "$GOROOT/src/fmt" ] || { rm -rf "$GOROOT/src"; ln -s "$W/go/usr/share/go-1.19/src" "$GOROOT/src"; }
go build -o "$W/bin/openapi-gen" ./vendor/k8s.io/kube-openapi/cmd/openapi-gen
DIRS=$(grep -rl --include='*.go' '+k8s:openapi-gen=' pkg cmd plugin staging/src/k8s.io \
  | grep -v -e /code-generator/ -e /sample-apiserver/ -e /sample-controller/ -e zz_generated -e _test.go \
  | xargs -n1 dirname | sed 's#^staging/src/#vendor/#' | LC_ALL=C sort -u)
INPUT=$(echo $DIRS | sed 's# #,k8s.io/kubernetes/#g; s#^#k8s.io/kubernetes/#')
"$W/bin/openapi-gen" --logtostderr -i "$INPUT" -p k8s.io/kubernetes/pkg/generated/openapi -O zz_generated.openapi \
  -h vendor/k8s.io/code-generator/hack/boilerplate.go.txt -r "$W/violations.report"
V="-s -w"  # a version is required: clients ask for it
for p in k8s.io/kubernetes/vendor/k8s.io/component-base/version k8s.io/kubernetes/vendor/k8s.io/client-go/pkg/version; do
  V="$V -X $p.gitVersion=v1.20.2 -X $p.gitMajor=1 -X $p.gitMinor=20 -X $p.gitCommit=debian -X $p.gitTreeState=clean"
  V="$V -X $p.buildDate=2021-01-13T13:20:00Z"
done
for c in kube-apiserver kube-scheduler kube-controller-manager kubelet; do
  go build -tags providerless,dockerless -trimpath -ldflags "$V" -o "$OUT/$c" "k8s.io/kubernetes/cmd/$c"
done
cc -Os -static -o "$OUT/pause" build/pause/linux/pause.c
