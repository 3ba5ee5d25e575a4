// Runs a plan of a figure: shares its runs among the workers, and hands each result to the page.

import { content, type Member, type Pool, Superseded } from './pool'
import type { FigureRun } from './figures'
import type { Facts } from './tables'
import type { Flag } from './model'

/** The runs of a figure. A newer figure ends them. */
export class Batch {
  private stopped = false

  constructor(private readonly pool: Pool) {}

  stop(): void {
    this.stopped = true
  }

  private check(): void {
    if (this.stopped) throw new Superseded()
  }

  /** Gives all workers the plan. */
  async plan(file: string, flags: Flag[]): Promise<Facts> {
    const request = JSON.stringify({ do: 'plan', flags, file })
    const [facts] = await Promise.all(this.pool.members.map(async (member) => content<Facts>(await member.raw(request, 'figure'))))
    this.check()
    return facts!
  }

  /** Carries out jobs, and calls `seen` with each result. */
  async run(jobs: number[], seen: (job: number, run: FigureRun) => void): Promise<void> {
    let next = 0
    const work = async (member: Member): Promise<void> => {
      while (next < jobs.length) {
        const job = jobs[next++]!
        const [run] = await member.ask<FigureRun[]>({ do: 'run', job }, 'figure')
        this.check()
        if (run) seen(job, run)
      }
    }
    await Promise.all(this.pool.members.map(work))
  }

  /** Returns the packets of a run. */
  async draw<T>(seed: number): Promise<T> {
    const drawn = await this.pool.members.at(-1)!.ask<T>({ do: 'draw', point: 0, contestant: 0, seed }, 'figure')
    this.check()
    return drawn
  }
}
