//! Fixtures and a real kube-apiserver with etcd for tests
