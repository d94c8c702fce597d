//! Who leads may write: the client's fence asks the leadership before every write leaves.

use kit_client::fence::WriteGate;
use tower::BoxError;

use super::Leadership;

impl WriteGate for Leadership {
    fn ensure_open(&self) -> Result<(), BoxError> {
        self.ensure().map_err(BoxError::from)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Duration;

    use bytes::Bytes;
    use http::{Request, Response};
    use http_body_util::Full;
    use k8s_openapi::api::core::v1::ConfigMap;
    use kit_client::args::ClientArgs;
    use kit_client::connect::assemble;
    use kit_client::count::RequestCounter;
    use kit_client::errors::{Class, Classify as _, chain};
    use kit_client::fence::FenceLayer;
    use kube::api::{Patch, PatchParams};
    use kube::client::Body;
    use kube::{Api, Client};
    use tokio::time::Instant;
    use tower::Layer as _;

    use super::*;

    async fn write(client: Client) -> Result<ConfigMap, kube::Error> {
        let patch = Patch::Apply(serde_json::json!({ "apiVersion": "v1", "kind": "ConfigMap" }));
        Api::default_namespaced(client)
            .patch("a", &PatchParams::apply("test"), &patch)
            .await
    }

    #[tokio::test(start_paused = true)]
    async fn a_write_that_waited_for_its_turn_is_not_sent_once_another_may_lead() {
        let leadership = Leadership::until(Instant::now() + Duration::from_secs(5));
        let seen = Arc::new(AtomicU32::new(0));
        let count = Arc::clone(&seen);
        let transport = tower::service_fn(move |_: Request<Body>| {
            count.fetch_add(1, Ordering::SeqCst);
            async {
                let body = Full::new(Bytes::from(r#"{"metadata":{"name":"a"}}"#));
                Ok::<_, BoxError>(Response::new(body))
            }
        });
        let args = ClientArgs {
            qps: 0.1,
            burst: 1,
            ..ClientArgs::default()
        };
        let fenced = FenceLayer::new(leadership.clone()).layer(transport);
        let client = assemble(fenced, "default", &args, &RequestCounter::new());
        write(client.clone()).await.expect("it leads");
        leadership
            .ensure()
            .expect("it leads, so the next one begins");
        let error = write(client.clone()).await.expect_err("ten seconds later");
        assert!(chain(&error).contains("not the leader any more"), "{error}");
        assert_eq!(error.class(), Class::Transient);
        assert_eq!(seen.load(Ordering::SeqCst), 1, "it was sent");
        let maps: Api<ConfigMap> = Api::default_namespaced(client);
        maps.get("a").await.expect("reads are free");
    }
}
