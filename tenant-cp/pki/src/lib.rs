//! Certificates of a tenant cluster: wanted, inspected, issued
