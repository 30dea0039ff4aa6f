/** The page of a document beside the panel with the question; above it in narrow windows. */

import { useQuery } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import type { Mark } from '../fields/fieldTree';
import { PageViewer, type ScrollTarget } from '../viewer/PageViewer';
import { cn } from '../components/ui/cn';
import { Loading } from '../components/ui/Loading';
import { Skeleton } from '../components/ui/Skeleton';
import { documentQuery } from '../documents/documentQueries';

interface Props {
  /** "": not known yet. */
  documentId: string | null;
  marks?: ReadonlyMap<number, readonly Mark[]>;
  chosen?: string | null;
  place?: ScrollTarget;
  onChoose?: (path: string) => void;
  /** The panel is wider, and shows excerpts of the page. */
  isWide?: boolean;
  children: ReactNode;
}

const NO_MARKS: ReadonlyMap<number, readonly Mark[]> = new Map();

export function PageAndPanel(props: Props) {
  const { documentId, marks = NO_MARKS, chosen = null, place = { page: 1, at: 0 }, onChoose, isWide, children } = props;
  const document = useQuery({ ...documentQuery(documentId ?? ''), enabled: !!documentId });
  const pages = document.data?.page_count ?? 0;
  const isLoading = documentId === '' || document.isLoading;
  return (
    <div className="flex min-h-0 flex-1 flex-col sm:max-lg:landscape:flex-row xl:flex-row">
      {documentId !== null && (
        <div className="relative flex min-h-0 min-w-0 flex-1 flex-col bg-canvas *:min-h-0 *:flex-1">
          {pages > 0 && (
            <PageViewer
              key={documentId}
              documentId={documentId}
              pages={pages}
              marks={marks}
              chosen={chosen}
              place={place}
              onChoose={onChoose ?? (() => undefined)}
              hasExcerpts={isWide ?? false}
            />
          )}
          {isLoading && <div className="mx-auto mt-3 w-[calc(100%-1.5rem)] max-w-180 bg-card" />}
        </div>
      )}
      <div
        className={cn(
          '@container flex min-h-0 flex-col border-border bg-background xl:border-l',
          'sm:max-lg:landscape:w-1/2 sm:max-lg:landscape:border-l',
          'max-xl:portrait:max-h-[55%] max-xl:portrait:min-h-[45%] lg:max-xl:max-h-[60%] lg:max-xl:min-h-[45%] lg:max-xl:border-t max-lg:portrait:border-t',
          documentId === null
            ? 'flex-1'
            : isWide
              ? 'xl:w-[clamp(28rem,37.5vw,34rem)]'
              : 'xl:w-[clamp(24rem,29.5vw,26.5rem)]',
        )}>
        {children}
      </div>
    </div>
  );
}

/** The same while it is not known what it will show. */
export function PageAndPanelToCome() {
  return (
    <div className="flex h-full min-h-0 flex-1 flex-col bg-background">
      <div className="flex h-12 shrink-0 items-center border-b border-border px-4">
        <Skeleton className="w-48" />
      </div>
      <PageAndPanel documentId="">
        <Loading />
      </PageAndPanel>
    </div>
  );
}
