# To be sourced inside of a new network, mount and process namespace: a second host, the network namespace "other", on
# the far end of an interface "here"; 10.7.7.1 is this host, 10.7.7.2 the other. All of it ends with the namespace.
mount -t tmpfs none /run
ip netns add other
ip link add here type veth peer name there netns other
ip link set lo up
ip addr add 10.7.7.1/24 dev here
ip link set here up
ip -n other link set lo up
ip -n other addr add 10.7.7.2/24 dev there
ip -n other link set there up
