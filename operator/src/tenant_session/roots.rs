//! Whom pods and nodes of a tenant cluster are told to believe its kube-apiservers by: the ConfigMap `kube-root-ca.crt` of each
//! namespace, and `cluster-info`, which `kubeadm join` reads.
//!
//! Invariant: of each nothing but the authorities is kept, every text once, and there is a most of them.

use std::collections::BTreeSet;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use k8s_openapi::api::core::v1::ConfigMap;
use kit_client::errors::chain;
use kube::api::ListParams;
use kube::{Api, Client};

/// Made in every namespace by the kube-controller-manager (`pkg/controller/certificates/rootcacertpublisher`).
const OF_PODS: &str = "kube-root-ca.crt";
const OF_NODES: (&str, &str) = ("kube-public", "cluster-info");
const AUTHORITY: &str = "certificate-authority-data:";
/// ConfigMaps of one page.
const PAGE: u32 = 200;
/// Pages that are asked for: what is behind them is not known.
const MOST_PAGES: usize = 30;
/// Bundles that are kept: more than there are in the middle of a rotation.
const MOST: usize = 8;

/// All bundles that are told, PEM; an empty one where something is told that is none.
///
/// # Errors
/// Why they are not known.
pub async fn ask(client: &Client) -> Result<BTreeSet<String>, String> {
    let maps = Api::<ConfigMap>::all(client.clone());
    let mut params = ListParams::default().limit(PAGE);
    params.field_selector = Some(format!("metadata.name={OF_PODS}"));
    let mut told = BTreeSet::new();
    let mut is_whole = false;
    for _ in 0..MOST_PAGES {
        let page = maps.list(&params).await.map_err(|error| chain(&error))?;
        let bundles = page.items.into_iter().map(of_pods);
        for bundle in bundles {
            if told.len() < MOST {
                told.insert(bundle);
            }
        }
        match page.metadata.continue_.filter(|next| !next.is_empty()) {
            Some(next) => params.continue_token = Some(next),
            None => {
                is_whole = true;
                break;
            }
        }
    }
    if !is_whole {
        let most = MOST_PAGES * usize::try_from(PAGE).unwrap_or_default();
        return Err(format!("there are more than {most} namespaces"));
    }
    let (namespace, name) = OF_NODES;
    let maps = Api::<ConfigMap>::namespaced(client.clone(), namespace);
    let found = maps.get_opt(name).await.map_err(|error| chain(&error))?;
    told.insert(of_nodes(found.unwrap_or_default()));
    Ok(told)
}

fn of_pods(map: ConfigMap) -> String {
    let mut data = map.data.unwrap_or_default();
    data.remove("ca.crt").unwrap_or_default()
}

fn of_nodes(map: ConfigMap) -> String {
    let mut data = map.data.unwrap_or_default();
    let config = data.remove("kubeconfig").unwrap_or_default();
    let mut lines = config.lines();
    let encoded = lines.find_map(|line| line.trim().strip_prefix(AUTHORITY));
    let decoded = encoded.and_then(|encoded| STANDARD.decode(encoded.trim()).ok());
    let text = decoded.and_then(|bytes| String::from_utf8(bytes).ok());
    text.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn map(data: &serde_json::Value) -> ConfigMap {
        serde_json::from_value(json!({ "data": data })).unwrap()
    }

    #[test]
    fn authorities_are_read_as_they_are_told_and_what_is_none_is_empty() {
        assert_eq!(of_pods(map(&json!({ "ca.crt": "<ca>\n" }))), "<ca>\n");
        assert_eq!(of_pods(ConfigMap::default()), "");
        let told = format!(
            "clusters:\n- name: ''\n  cluster:\n    {AUTHORITY} {}\n",
            STANDARD.encode("<ca>\n")
        );
        assert_eq!(of_nodes(map(&json!({ "kubeconfig": told }))), "<ca>\n");
        for none in ["", "a", "certificate-authority-data: %"] {
            assert_eq!(of_nodes(map(&json!({ "kubeconfig": none }))), "");
        }
    }
}
