//! The fault proxy, as a process in front of a real server.

use std::pin::Pin;
use std::time::Duration;

use anyhow::{Context as _, Result};
use futures::{Stream, StreamExt as _};
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::{Client, ResourceExt as _};
use serde_json::json;
use testkit::fixtures::ask_until;
use testkit::proxy::{Action, Rule};
use testkit::{FaultProxy, ManagementApi};

const PATIENCE: Duration = Duration::from_secs(60);

struct World {
    api: &'static ManagementApi,
    proxy: FaultProxy,
    namespace: String,
    client: Client,
    admin: Client,
}

type Watch = Pin<Box<dyn Stream<Item = kube::Result<WatchEvent<ConfigMap>>> + Send>>;

impl World {
    async fn new(name: &str) -> Result<Option<Self>> {
        let Some(api) = ManagementApi::shared().await? else {
            return Ok(None);
        };
        let proxy = FaultProxy::start(api).await?;
        let mut config = proxy.config_as(api, "proxied", &["system:masters"])?;
        // One request of the test is one request at the proxy.
        config.default_retry = false;
        let (client, admin) = (Client::try_from(config)?, api.admin()?);
        let namespace = api.namespace(name).await?;
        Ok(Some(Self {
            api,
            proxy,
            namespace,
            client,
            admin,
        }))
    }

    async fn apply(&self, client: &Client, name: &str, value: &str) -> kube::Result<ConfigMap> {
        let maps: Api<ConfigMap> = Api::namespaced(client.clone(), &self.namespace);
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name},
            "data": {"key": value}});
        maps.patch(
            name,
            &PatchParams::apply("test").force(),
            &Patch::Apply(map),
        )
        .await
    }

    async fn watch(&self) -> Result<Watch> {
        self.watch_as(&self.client).await
    }

    async fn watch_as(&self, client: &Client) -> Result<Watch> {
        let maps: Api<ConfigMap> = Api::namespaced(client.clone(), &self.namespace);
        let now = maps
            .list(&Default::default())
            .await?
            .metadata
            .resource_version;
        let now = now.context("a list has a resourceVersion")?;
        let params = WatchParams::default().disable_bookmarks();
        Ok(maps.watch(&params, &now).await?.boxed())
    }
}

/// The next event as `<type> <name>`, or the error.
async fn next(watch: &mut Watch) -> Result<String> {
    let event = tokio::time::timeout(PATIENCE, watch.next())
        .await
        .context("no event")?;
    Ok(match event.context("the watch ended")?? {
        WatchEvent::Added(map) => format!("ADDED {}", map.name_any()),
        WatchEvent::Modified(map) => format!("MODIFIED {}", map.name_any()),
        WatchEvent::Deleted(map) => format!("DELETED {}", map.name_any()),
        WatchEvent::Bookmark(_) => "BOOKMARK".to_owned(),
        WatchEvent::Error(status) => format!("ERROR {}", status.code),
    })
}

#[tokio::test]
async fn without_rules_the_proxy_hands_everything_through_with_the_callers_identity() -> Result<()>
{
    let Some(world) = World::new("through").await? else {
        return Ok(());
    };
    let client = world
        .proxy
        .client_as(world.api, "somebody", &["first", "second"])?;
    let review: Api<SelfSubjectReview> = Api::all(client.clone());
    let review = review
        .create(&PostParams::default(), &SelfSubjectReview::default())
        .await?;
    let user = review
        .status
        .and_then(|status| status.user_info)
        .context("no user")?;
    assert_eq!(user.username.as_deref(), Some("somebody"));
    let groups = user.groups.unwrap_or_default();
    assert_eq!(groups, ["first", "second", "system:authenticated"]);
    assert!(
        world.apply(&client, "a", "1").await.is_err(),
        "RBAC must refuse somebody"
    );
    let mut watch = world.watch().await?;
    world.apply(&world.client, "a", "1").await?;
    assert_eq!(next(&mut watch).await?, "ADDED a");
    let counters = world.proxy.counters().await?;
    assert_eq!((counters.streams, counters.events), (1, 1));
    Ok(())
}

#[tokio::test]
async fn answers_are_given_as_often_as_the_rule_says() -> Result<()> {
    let Some(world) = World::new("answers").await? else {
        return Ok(());
    };
    let action = Action::Answer {
        status: 503,
        retry_after: Some(1),
    };
    let rule = Rule::new(action)
        .verb("patch")
        .path("/configmaps/")
        .user("proxied")
        .times(1);
    world.proxy.set("busy", &rule).await?;
    match world.apply(&world.client, "a", "1").await {
        Err(kube::Error::Api(status)) => assert_eq!(status.code, 503),
        other => panic!("not refused: {other:?}"),
    }
    world.apply(&world.client, "a", "1").await?;
    let counters = world.proxy.counters().await?.rules["busy"];
    assert_eq!((counters.matched, counters.fired), (2, 1));
    Ok(())
}

#[tokio::test]
async fn lost_reply_is_carried_out_and_a_refused_request_is_not() -> Result<()> {
    let Some(world) = World::new("lost").await? else {
        return Ok(());
    };
    let maps: Api<ConfigMap> = Api::namespaced(world.admin.clone(), &world.namespace);
    world
        .proxy
        .set("a", &Rule::new(Action::LoseReply).verb("patch"))
        .await?;
    assert!(world.apply(&world.client, "lost", "1").await.is_err());
    assert!(maps.get_opt("lost").await?.is_some());
    world
        .proxy
        .set("a", &Rule::new(Action::Refuse).verb("patch"))
        .await?;
    assert!(world.apply(&world.client, "refused", "1").await.is_err());
    assert!(maps.get_opt("refused").await?.is_none());
    world.proxy.clear().await?;
    world.apply(&world.client, "refused", "1").await?;
    Ok(())
}

#[tokio::test]
async fn chosen_watch_event_is_missing_or_comes_twice() -> Result<()> {
    let Some(world) = World::new("events").await? else {
        return Ok(());
    };
    let mut watch = world.watch().await?;
    let path = format!("/namespaces/{}/configmaps", world.namespace);
    let second = Rule::new(Action::DropEvent)
        .path(&path)
        .event("ADDED")
        .nth(2);
    world.proxy.set("drop", &second).await?;
    let twice = Rule::new(Action::RepeatEvent).path(&path).event("MODIFIED");
    world.proxy.set("repeat", &twice).await?;
    for name in ["a", "b", "c"] {
        world.apply(&world.admin, name, "1").await?;
    }
    world.apply(&world.admin, "a", "2").await?;
    for expected in ["ADDED a", "ADDED c", "MODIFIED a", "MODIFIED a"] {
        assert_eq!(next(&mut watch).await?, expected);
    }
    Ok(())
}

#[tokio::test]
async fn stalled_watch_delivers_nothing_until_the_rule_goes() -> Result<()> {
    let Some(world) = World::new("stall").await? else {
        return Ok(());
    };
    let mut watch = world.watch().await?;
    let canary = world
        .proxy
        .client_as(world.api, "canary", &["system:masters"])?;
    let mut canary = world.watch_as(&canary).await?;
    // Both are under way.
    world.apply(&world.admin, "first", "1").await?;
    for watch in [&mut watch, &mut canary] {
        assert_eq!(next(watch).await?, "ADDED first");
    }
    let stall = Rule::new(Action::StallWatch).verb("watch").user("proxied");
    world.proxy.set("stall", &stall).await?;
    world.apply(&world.admin, "a", "1").await?;
    assert_eq!(next(&mut canary).await?, "ADDED a");
    let arrived = async || match world.proxy.counters().await?.events {
        4 => Ok(Ok(())),
        events => Ok(Err(format!("{events} events"))),
    };
    ask_until(
        "both watches have the event as far as the proxy",
        PATIENCE,
        arrived,
    )
    .await?;
    // Whatever is delivered now is taken at once.
    let (delivered, mut deliveries) = tokio::sync::mpsc::unbounded_channel();
    let taker = tokio::spawn(async move {
        while let Ok(event) = next(&mut watch).await {
            if delivered.send(event).is_err() {
                return;
            }
        }
    });
    // The canary: events of later go the same way, and arrive.
    for name in ["b", "c", "d"] {
        world.apply(&world.admin, name, "1").await?;
        assert_eq!(next(&mut canary).await?, format!("ADDED {name}"));
    }
    let early = deliveries.try_recv();
    assert!(early.is_err(), "a stalled watch delivered {early:?}");
    world.proxy.remove("stall").await?;
    for name in ["a", "b", "c", "d"] {
        let event = deliveries.recv().await;
        assert_eq!(event, Some(format!("ADDED {name}")));
    }
    taker.abort();
    Ok(())
}

#[tokio::test]
async fn watches_break_off_and_expire() -> Result<()> {
    let Some(world) = World::new("ends").await? else {
        return Ok(());
    };
    let mut watch = world.watch().await?;
    world.proxy.close_streams().await?;
    assert!(next(&mut watch).await.is_err());
    let mut watch = world.watch().await?;
    world
        .proxy
        .set(
            "expire",
            &Rule::new(Action::ExpireWatch).event("ADDED").times(1),
        )
        .await?;
    world.apply(&world.admin, "a", "1").await?;
    assert_eq!(next(&mut watch).await?, "ERROR 410");
    assert!(watch.next().await.is_none());
    let gone = Action::Answer {
        status: 410,
        retry_after: None,
    };
    world
        .proxy
        .set("gone", &Rule::new(gone).verb("watch").times(1))
        .await?;
    assert!(world.watch().await.is_err());
    let mut watch = world.watch().await?;
    world
        .proxy
        .set("close", &Rule::new(Action::CloseWatch).times(1))
        .await?;
    world.apply(&world.admin, "b", "1").await?;
    assert!(next(&mut watch).await.is_err());
    Ok(())
}

#[tokio::test]
async fn proxy_ends_with_its_handle() -> Result<()> {
    let Some(world) = World::new("end").await? else {
        return Ok(());
    };
    let pid = world.proxy.pid();
    assert!(std::path::Path::new(&format!("/proc/{pid}")).exists());
    drop(world);
    assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());
    Ok(())
}
