// Components whose code is a chunk of its own, loaded when they are first needed.
import { type ComponentType, useEffect, useState } from "react";

import { Failure, Reading } from "./parts";

export type OnDemand<Props> = ComponentType<Props> & { load: () => Promise<void> };

/**
 * Returns a component that loads another component. It does not use Suspense: React shows each fallback of Suspense for 300 ms, and Airflow has already shown a fallback.
 */
export function onDemand<Props extends object>(
  chunk: () => Promise<ComponentType<Props>>,
): OnDemand<Props> {
  let found: ComponentType<Props> | undefined;
  let loading: Promise<void> | undefined;
  const load = () =>
    (loading ??= chunk().then(
      (component) => {
        found = component;
      },
      () => {
        loading = undefined; // the next one tries again
        throw new Error("The code of this page could not be loaded. After an upgrade, reload the page.");
      },
    ));
  function Shown(props: Props) {
    const [error, setError] = useState<Error>();
    const [, setLoaded] = useState(found !== undefined);
    useEffect(() => {
      if (found === undefined) load().then(() => setLoaded(true), setError);
    }, []);
    if (error) return <Failure error={error} />;
    const Found = found;
    return Found ? <Found {...props} /> : <Reading />;
  }
  return Object.assign(Shown, { load });
}
