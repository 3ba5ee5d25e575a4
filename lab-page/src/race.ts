// Runs a race: shares its runs among the workers, and reports the answer as seeds finish.

import { content, type Member, type Pool, Refusal, Superseded } from './pool'
import type { Facts, PointState } from './tables'
import type { Flag } from './model'
import type { Side } from './worker'

/** What is known of a race so far. */
export interface Progress {
  facts: Facts
  points: PointState[]
  /** The number of seeds in `points`. */
  seeds: number
  /** The runs done, of all. */
  done: number
  /** Whether the experiments that look for causes have ended. */
  explained: boolean
}

/** The numbers of seeds after which the answer is shown. */
const STAGES = [1, 3, 10, 30, 100, 300]

/** How long a change may have to wait for a run of a figure in the background, in milliseconds. */
const PATIENCE = 500

/** A race. A newer one ends it. */
export class Race {
  private stopped = false
  private next = 0
  private done = 0
  /** The times after changes that are tried again, as JSON, by contestant and seed. */
  private readonly tried = new Map<string, (string | undefined)[][]>()
  facts?: Facts
  finished = false

  constructor(
    private readonly pool: Pool,
    private readonly flags: Flag[],
    private readonly told: (progress: Progress) => void,
    private readonly side: Side = 'race',
  ) {}

  stop(): void {
    this.stopped = true
  }

  private check(): void {
    if (this.stopped) throw new Superseded()
  }

  /** The worker that holds all runs. */
  private get judge(): Member {
    return this.pool.members[0]!
  }

  async run(): Promise<void> {
    const plan = JSON.stringify({ do: 'plan', flags: this.flags, file: null })
    // The first worker alone reads the plan first: a mistake is reported once.
    this.facts = content<Facts>(await this.judge.raw(plan, this.side))
    this.check()
    await Promise.all(this.pool.members.slice(1).map((member) => member.raw(plan, this.side)))
    this.check()
    const all = this.facts.seeds.length
    const stages = [...STAGES.filter((stage) => stage < all), all]
    const order = this.facts.jobs.map((job, index) => ({ ...job, index }))
    order.sort((a, b) => a.seed - b.seed || a.index - b.index)
    for (const stage of stages) {
      const end = order.filter((job) => job.seed < stage).length
      await Promise.all(this.pool.members.map((member) => this.work(member, order, end)))
      this.check()
      await this.tell(stage, false)
    }
    if (this.facts.explains) await this.explain(all)
    this.finished = true
    await this.tell(all, true)
  }

  private async tell(seeds: number, explained: boolean): Promise<void> {
    const points = await this.judge.ask<PointState[]>({ do: 'state', seeds }, this.side)
    this.check()
    this.told({ facts: this.facts!, points, seeds, done: this.done, explained })
  }

  private async work(member: Member, order: { index: number }[], end: number): Promise<void> {
    while (this.next < end) {
      this.check()
      const job = order[this.next++]!.index
      const began = performance.now()
      const answer = await member.raw(JSON.stringify({ do: 'run', job }), this.side)
      this.check()
      // A change need not wait for a slow run of a figure: its worker is replaced.
      if (this.side === 'figure') member.long = performance.now() - began > PATIENCE
      content0(answer)
      // The text of the run is passed on as it is: the page need not read it.
      content0(await this.judge.raw(`{"do":"add","job":${job},"answer":${answer}}`, this.side))
      this.done++
    }
  }

  /** Carries out the experiments, which are as many parts as points times two. */
  private async explain(seeds: number): Promise<void> {
    const points = this.facts!.points.map((_, point) => point)
    const held = await Promise.all(points.map((point) => this.judge.raw(JSON.stringify({ do: 'export', point, seeds }))))
    this.check()
    const parts = points.flatMap((point) => [{ point, part: 'gaps' }, { point, part: 'changes' }])
    const found: string[] = []
    const work = async (member: Member): Promise<void> => {
      for (let part = parts.shift(); part; part = parts.shift()) {
        this.check()
        const from = member === this.judge ? '' : `,"from":${held[part.point]}`
        member.long = true
        const answer = await member.raw(`{"do":"explain","point":${part.point},"seeds":${seeds},"part":"${part.part}"${from}}`)
        member.long = false
        this.check()
        content0(answer)
        found.push(`{"do":"explained","point":${part.point},"seeds":${seeds},"answer":${answer}}`)
      }
    }
    await Promise.all(this.pool.members.map(work))
    for (const request of found) content0(await this.judge.raw(request))
  }

  /** The changes that the experiments tried with fewer seeds than the race has. */
  private static shortened(points: PointState[], seeds: number): { point: number; change: string }[] {
    return points.flatMap(({ changes }, point) => changes.filter(({ n }) => n > 1 && n < seeds).map(({ change }) => ({ point, change })))
  }

  /**
   * Tries changes again with all seeds of the race, one change after another, until `wanted` says no. Runs that are done
   * count if it is called again.
   */
  async tryAgain(wanted: () => boolean): Promise<void> {
    const seeds = this.facts!.seeds.length
    const waiting = Race.shortened(await this.judge.ask<PointState[]>({ do: 'state', seeds }), seeds)
    let found = 0
    for (const { point, change } of waiting) {
      const times = await this.times(point, change, wanted).catch((error: unknown) => {
        // With all seeds, a change may be larger than a race can be. It stays as it is.
        if (error instanceof Refusal) return null
        throw error
      })
      this.check()
      if (times === null) continue
      if (!times) break
      content0(await this.judge.raw(`{"do":"tried","point":${point},"change":${JSON.stringify(change)},"times":${times}}`))
      found++
    }
    // The text of the answer moves once only.
    if (found > 0) await this.tell(seeds, true)
  }

  /** Returns the times of all contestants and seeds after a change, as JSON; `undefined` if they are not wanted any more. */
  private async times(point: number, change: string, wanted: () => boolean): Promise<string | undefined> {
    const { contestants, seeds } = this.facts!
    const key = `${point} ${change}`
    const times = this.tried.get(key) ?? contestants.map(() => seeds.map((): string | undefined => undefined))
    this.tried.set(key, times)
    const jobs = times.flatMap((row, contestant) => row.flatMap((time, seed) => (time === undefined ? [{ contestant, seed }] : [])))
    const work = async (member: Member): Promise<void> => {
      for (let job = wanted() ? jobs.shift() : undefined; job; job = wanted() ? jobs.shift() : undefined) {
        const began = performance.now()
        const answer = await member.raw(JSON.stringify({ do: 'try', point, change, ...job }))
        this.check()
        member.long = performance.now() - began > PATIENCE
        content0(answer)
        times[job.contestant]![job.seed] = answer.slice('{"ok":'.length, -1)
      }
    }
    await Promise.all(this.pool.members.map(work))
    return jobs.length > 0 ? undefined : `[${times.map((row) => `[${row.join()}]`).join()}]`
  }

  /** Returns the names and contents of the files of the race. */
  async files(captures: boolean): Promise<[string, Uint8Array<ArrayBuffer>][]> {
    this.judge.long = true
    const names = await this.judge.ask<string[]>({ do: 'results', captures })
    const files = await this.judge.take(names)
    this.judge.long = false
    return files
  }

  /** A worker that holds the plan, and has the least to do. */
  get helper(): Member {
    return this.pool.members.find((member) => !member.busy && member !== this.judge) ?? this.pool.members.at(-1)!
  }
}

/** Throws the error of an answer, without reading the rest of it. */
function content0(text: string): void {
  if (!text.startsWith('{"ok":')) content(text)
}
