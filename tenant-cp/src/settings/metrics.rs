//! Who reads the metrics of the programs in tenant namespaces that stand between both clusters.
//!
//! Invariant: nobody by default; a scraper is named by its namespace, never by addresses, which pods of others may get.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Metrics of programs in tenant namespaces.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct MetricsSettings {
    /// Who may read them. Default: nobody.
    pub from: Vec<Scraper>,
}

/// Pods that scrape.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Scraper {
    /// Their namespace.
    pub namespace: String,
    /// Their labels. Default: all pods of the namespace.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
}
