//! The Covey operator: reconciles TenantClusters
