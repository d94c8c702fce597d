//! The watches on nodes and ServiceCIDRs of the management cluster, and whom new ranges wake.
//!
//! Invariant: what is listed comes in pages, and nothing of an object is kept but what
//! [`super::cache`] does; reconciles are woken at once, and then no more often than once per
//! [`PERIOD`].

use std::sync::Arc;
use std::time::Duration;

use futures::{Stream, StreamExt, stream};
use kube::Client;
use tenant_cp::settings::NetworkSettings;

use super::ReservedRanges;
use super::cache::{Kind, WatchedObject};
use super::kinds::{Node, ServiceCidr};
use crate::throttle::throttle;
use crate::watches::kept;

/// How long changes are throttled: they concern every tenant cluster, and nodes come in bursts.
const PERIOD: Duration = Duration::from_secs(5);

/// Keeps what is known of ranges up to date. Ends never.
pub async fn run(ranges: Arc<ReservedRanges>, client: Client) {
    let nodes = kept::run::<_, Node>(&ranges, &client, Kind::Node, WatchedObject::Node);
    let services = async {
        // Older management clusters than 1.33 do not know them.
        let absent = || ranges.not_served(Kind::ServiceCidr);
        kept::until_served::<ServiceCidr>(&client, "ServiceCIDRs", absent).await;
        let seen = WatchedObject::ServiceCidr;
        kept::run::<_, ServiceCidr>(&ranges, &client, Kind::ServiceCidr, seen).await;
    };
    futures::join!(nodes, services);
}

/// Told each time that what `of` gives of the settings in force is something else than before.
pub fn changes<T>(
    ranges: &ReservedRanges,
    of: fn(&NetworkSettings) -> T,
) -> impl Stream<Item = ()> + Send + use<T>
where
    T: PartialEq + Send + 'static,
{
    let mut changes = ranges.changes();
    let known = of(&changes.borrow_and_update().network);
    let news = stream::unfold((changes, known), move |(mut changes, known)| async move {
        loop {
            // Fails once nobody keeps what is known any more, and then nobody needs waking.
            changes.changed().await.ok()?;
            let now = of(&changes.borrow_and_update().network);
            if now != known {
                return Some(((), (changes, now)));
            }
        }
    });
    throttle(news.boxed(), PERIOD)
}
