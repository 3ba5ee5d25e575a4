// The WebAssembly program in memory: its standard streams and its files. It has no network.

import { Directory, Fd, File, PreopenDirectory, WASI } from '@bjorn3/browser_wasi_shim'

/** Standard input: the bytes of a request. */
class Input extends Fd {
  private at = 0
  bytes = new Uint8Array()
  set(bytes: Uint8Array<ArrayBuffer>): void {
    this.bytes = bytes
    this.at = 0
  }
  override fd_read(size: number): { ret: number; data: Uint8Array } {
    const data = this.bytes.subarray(this.at, this.at + size)
    this.at += data.length
    return { ret: 0, data }
  }
}

/** Standard output or error: the pieces that were written. */
class Output extends Fd {
  private parts: Uint8Array[] = []
  override fd_write(data: Uint8Array): { ret: number; nwritten: number } {
    this.parts.push(data)
    return { ret: 0, nwritten: data.length }
  }
  take(): string {
    const decoder = new TextDecoder()
    const text = this.parts.map((part) => decoder.decode(part, { stream: true })).join('') + decoder.decode()
    this.parts = []
    return text
  }
}

/** A program that answers requests. After a trap it must be thrown away. */
export class Program {
  private readonly input = new Input()
  private readonly output = new Output()
  private readonly errors = new Output()
  private readonly out = new Map<string, File>()
  private readonly root: PreopenDirectory
  private readonly call: () => void

  constructor(module: WebAssembly.Module) {
    this.root = new PreopenDirectory('/', new Map([['out', new Directory(this.out)]]))
    const system = new WASI([], [], [this.input, this.output, this.errors, this.root], { debug: false })
    const instance = new WebAssembly.Instance(module, { wasi_snapshot_preview1: system.wasiImport })
    system.initialize(instance as Parameters<typeof system.initialize>[0])
    this.call = instance.exports['anabranch_answer'] as () => void
  }

  /** Makes a file that the program can read; without bytes, removes it. */
  put(name: string, bytes: Uint8Array<ArrayBuffer> | undefined): void {
    if (bytes) this.root.dir.contents.set(name, new File(bytes))
    else this.root.dir.contents.delete(name)
  }

  /** Takes a file that the program has written. */
  take(name: string): Uint8Array {
    const file = this.out.get(name)
    this.out.delete(name)
    return file ? file.data : new Uint8Array()
  }

  /** Answers a request. Throws an error with the program's last words if it trapped. */
  answer(request: string): string {
    this.input.set(new TextEncoder().encode(request))
    try {
      this.call()
    } catch (error) {
      const words = this.errors.take().split('\n').filter((line) => line !== '' && !line.startsWith('note:'))
      throw new Error(words.length > 0 ? words.join(' ') : String(error))
    }
    return this.output.take()
  }
}

