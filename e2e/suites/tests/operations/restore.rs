//! Needs: operator
//!
//! A tenant cluster has an accident and is brought back to the moment before it, while another one is asked all the time.

use std::time::Duration;

use suites::drill;
use suites::scenario::{self, PATIENCE};

use crate::writer::Asker;

#[tokio::test]
async fn tenant_cluster_of_one_member_is_as_it_was_at_the_moment_and_its_neighbour_notices_nothing()
{
    scenario::run("restore", async |s| {
        let beside = s.tenant("beside", |_| {}).await?;
        let asker = Asker::start(beside.usable(PATIENCE).await?.client);
        drill::restore(s, 1, &mut tell).await?;
        asker.finish(100).await
    })
    .await;
}

#[tokio::test]
async fn tenant_cluster_of_three_members_is_as_it_was_at_the_moment() {
    scenario::run("restore-three", async |s| {
        drill::restore(s, 3, &mut tell).await
    })
    .await;
}

fn tell(after: Option<Duration>, what: &str) {
    match after {
        Some(after) => eprintln!("{:6.1} s {what}", after.as_secs_f64()),
        None => eprintln!("         {what}"),
    }
}
