//! From a validated TenantCluster to the objects of its control plane, without I/O
