//! What is answered while there is nothing to answer from.

use kit::admin::Admin;
use kube::{Client, Config};

use super::*;
use crate::cache::state::Kind;
use crate::manager::Manager;
use crate::testing::settings;

#[tokio::test]
async fn nobody_is_told_that_there_is_no_group_before_everything_was_listed() {
    kit_client::crypto::install_crypto();
    let nowhere = Config::new("http://127.0.0.1:1".parse().unwrap());
    let client = Client::try_from(nowhere).unwrap();
    let manager = Manager::new(client.clone(), client, settings(), "test", &Admin::new());
    let service = Service::new(Arc::clone(&manager.context));
    let groups = async || service.node_groups(Request::new(Default::default())).await;
    let of_node = async || {
        service
            .node_group_for_node(Request::new(Default::default()))
            .await
    };
    for code in [
        groups().await.unwrap_err().code(),
        of_node().await.unwrap_err().code(),
    ] {
        assert_eq!(code, Code::Unavailable);
    }
    for kind in Kind::NEEDED {
        manager.context.cache.begin(kind);
        manager.context.cache.end(kind);
    }
    assert!(groups().await.unwrap().into_inner().node_groups.is_empty());
    assert!(of_node().await.unwrap().into_inner().node_group.is_some());
}
