// The workers. Each holds the current plan; the first also holds all runs, and makes the answer of them.

import type { FromWorker, Side, ToWorker } from './worker'

/** A line for the user: the plan cannot be run, or the program failed. */
export class Refusal extends Error {}

/** A newer race has begun, so nobody waits for this answer. */
export class Superseded extends Error {}

interface Waiting {
  resolve: (value: never) => void
  reject: (error: Error) => void
}

/** A worker with the requests it has not answered. */
export class Member {
  private worker: Worker
  private readonly waiting = new Map<number, Waiting>()
  private next = 0
  /** Whether it carries out something that takes seconds. */
  long = false
  /** Whether the worker was ended; another takes its place. */
  dead = false

  constructor(source: string, module: WebAssembly.Module) {
    this.worker = new Worker(source)
    this.worker.onmessage = ({ data }: MessageEvent<FromWorker>) => this.heard(data)
    this.worker.onerror = (event) => {
      event.preventDefault()
      this.end(new Refusal(`a worker failed: ${event.message || 'out of memory'}`))
    }
    this.send({ kind: 'start', module })
  }

  private send(message: ToWorker): void {
    this.worker.postMessage(message)
  }

  private heard(message: FromWorker): void {
    const waiting = this.waiting.get(message.id)
    this.waiting.delete(message.id)
    if (message.kind === 'trap') {
      const error = new Refusal(inWords(message.words))
      waiting?.reject(error)
      // The worker starts another program for the figures. The race needs its plan and runs, which are gone.
      if (message.side === 'race') this.end(error)
    } else if (message.kind === 'files') {
      waiting?.resolve(message.files as never)
    } else {
      waiting?.resolve(message.text as never)
    }
  }

  get busy(): boolean {
    return this.waiting.size > 0
  }

  /** Gives the worker a file; without bytes, takes it away. */
  file(name: string, bytes: Uint8Array<ArrayBuffer> | undefined): void {
    this.send({ kind: 'file', name, bytes })
  }

  private wait<T>(message: (id: number) => ToWorker): Promise<T> {
    if (this.dead) return Promise.reject(new Superseded())
    const id = this.next++
    return new Promise<T>((resolve, reject) => {
      this.waiting.set(id, { resolve: resolve as (value: never) => void, reject })
      this.send(message(id))
    })
  }

  /** Returns the answer as it is, for a worker to pass on. */
  raw(request: string, side: Side = 'race'): Promise<string> {
    return this.wait((id) => ({ kind: 'ask', id, side, request }))
  }

  /** Returns the content of the answer. */
  async ask<T>(request: object, side: Side = 'race'): Promise<T> {
    return content<T>(await this.raw(JSON.stringify(request), side))
  }

  take(names: string[]): Promise<[string, Uint8Array<ArrayBuffer>][]> {
    return this.wait((id) => ({ kind: 'take', id, names }))
  }

  end(error: Error): void {
    this.dead = true
    this.worker.terminate()
    for (const { reject } of this.waiting.values()) reject(error)
    this.waiting.clear()
  }
}

/** Returns the content of an answer, or throws its error. */
export function content<T>(text: string): T {
  if (text.startsWith('{"error"')) throw new Refusal((JSON.parse(text) as { error: string }).error)
  if (!text.startsWith('{"ok":')) throw new Refusal('a worker gave no whole answer')
  return (JSON.parse(text) as { ok: T }).ok
}

function inWords(words: string): string {
  if (/memory|unreachable|out of bounds|call stack/i.test(words) && !/panicked/.test(words)) {
    return 'a run needs more memory than a browser gives it; race a smaller page or fewer objects'
  }
  return `a run broke an invariant: please report it (${words})`
}

/** The most bytes of files that the workers hold. */
export const MOST_BYTES = 200e6

/** All workers. */
export class Pool {
  readonly members: Member[] = []
  private readonly source: string
  private readonly files = new Map<string, Uint8Array<ArrayBuffer>>()

  constructor(code: string, private readonly module: WebAssembly.Module, count: number) {
    this.source = URL.createObjectURL(new Blob([code], { type: 'text/javascript' }))
    for (let i = 0; i < count; i++) this.members.push(this.member())
  }

  private member(): Member {
    const member = new Member(this.source, this.module)
    for (const [name, bytes] of this.files) member.file(name, bytes)
    return member
  }

  /** Gives all workers a file. Earlier files stay, so that going back finds them, until they are too large together. */
  file(name: string, bytes: Uint8Array<ArrayBuffer>): void {
    this.files.delete(name)
    this.files.set(name, bytes)
    const size = (): number => [...this.files.values()].reduce((sum, file) => sum + file.length, 0)
    for (const old of [...this.files.keys()]) {
      if (old === name || size() <= MOST_BYTES) break
      this.files.delete(old)
      this.members.forEach((member) => member.file(old, undefined))
    }
    this.members.forEach((member) => member.file(name, bytes))
  }

  /** Replaces workers that are dead. */
  revive(): void {
    this.members.forEach((member, i) => { if (member.dead) this.members[i] = this.member() })
  }

  /** Replaces workers that are dead, or that are long busy for a race that nobody wants any more. */
  renew(): void {
    this.members.forEach((member, i) => {
      if (member.dead || (member.long && member.busy)) {
        member.end(new Superseded())
        this.members[i] = this.member()
      }
      member.long = false
    })
  }
}
