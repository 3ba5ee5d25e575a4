//! The data that all handles of a running transport share: the `World`, the state of the engine, and the tasks that
//! drive it.

use super::SessionEngine;
use super::host::EngineHost;
use anabranch_world::World;
use std::cell::RefCell;
use std::rc::Rc;

pub(crate) struct Inner<W: World, E: SessionEngine> {
    pub(crate) world: W,
    pub(crate) shared: Rc<RefCell<EngineHost<E>>>,
    /// The task that runs the drive loop. Dropping the task's handle ends the task.
    pub(super) _driver: W::Task<()>,
    /// The task that notifies the engine of changed addresses and routes.
    pub(super) _follower: Option<W::Task<()>>,
}
