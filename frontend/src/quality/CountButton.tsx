/** A number that lists the values it counts. */

import type { ReactNode } from 'react';
import type { CountedKind } from '../api/types';
import { t } from '../shared/i18n';
import { useUpdateSearch } from '../shared/useUpdateSearch';
import type { QualityView } from './qualityView';

interface Props {
  show: CountedKind;
  count: number;
  /** Only the values of this column, with its title. */
  column?: { path: string; title: string };
  children: ReactNode;
}

export function CountButton({ show, count, column, children }: Props) {
  const updateSearch = useUpdateSearch<QualityView>();
  if (count === 0) return children;
  const kind = t(`quality.shown.${show}`);
  return (
    <button
      type="button"
      className="text-left text-link hover:underline"
      aria-label={
        column === undefined
          ? t('quality.showValues', { count, kind })
          : t('quality.showValuesOf', { count, kind, column: column.title })
      }
      onClick={() =>
        updateSearch(({ column: _, show: __, ...search }) => ({
          ...search,
          show,
          ...(column !== undefined && { column: column.path }),
        }))
      }>
      {children}
    </button>
  );
}
